package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func verifyCommand() *cobra.Command {
	var f nodeFlags
	sample, seed := percent(100), uint32(0)
	cmd := &cobra.Command{
		Use:     "verify",
		Short:   "Read layers of the mounted stores again and compare them with their DiffIDs",
		Example: "  pinbox-node verify --sample 5",
		Long: `Read layers of the mounted stores again, from their disks and media, and compare them with
their DiffIDs. The command changes nothing and runs at low priority. With --sample, it
reads layers in random order until they have PERCENT of all bytes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = rand.Uint32()
			}
			progress := cli.NewProgress(cmd, f.output)
			v, err := f.open().Verify(cmd.Context(), stores.VerifyOptions{
				Percent: float64(sample), Seed: uint64(seed), Progress: progress.Track("read layers again"),
			})
			progress.Close()
			if err != nil {
				return err
			}
			return showVerified(cmd.OutOrStdout(), f.output, v, sample, seed)
		},
	}
	cmd.Flags().Var(&sample, "sample", "`PERCENT` of the bytes to read")
	cli.Words(cmd.Flags(), "sample", "1%", "5%", "100%")
	cmd.Flags().Uint32Var(&seed, "seed", 0, "`NUMBER` of an earlier sample, to read it again (default: random)")
	cli.Under("Sample", cmd.Flags())
	f.add(cmd.Flags(), 10*time.Second)
	cli.AddProgress(cmd)
	return cmd
}

// percent is the value of --sample.
type percent float64

// Set implements pflag.Value.
func (p *percent) Set(text string) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(n > 0 && n <= 100) {
		return fmt.Errorf("want more than 0%% and at most 100%%")
	}
	*p = percent(n)
	return nil
}

// String implements pflag.Value.
func (p *percent) String() string { return strconv.FormatFloat(float64(*p), 'f', -1, 64) + "%" }

// Type implements pflag.Value.
func (p *percent) Type() string { return "percent" }

// verified is the result of `verify --output json`. Bytes are those of unpacked layers.
type verified struct {
	Sample     string         `json:"sample"`
	Seed       uint32         `json:"seed"`
	Stores     int            `json:"stores"`
	Layers     int            `json:"layers"`
	Bytes      int64          `json:"bytes"`
	ReadLayers int            `json:"readLayers"`
	ReadBytes  int64          `json:"readBytes"`
	Damaged    []damagedLayer `json:"damaged"`
}

type damagedLayer struct {
	Slot string `json:"slot"`
	// Digest and Name of an attached store.
	Digest string `json:"digest,omitempty"`
	Name   string `json:"name,omitempty"`
	// Layer is not set if the records of the store cannot be read.
	Layer  string   `json:"layer,omitempty"`
	Images []string `json:"images,omitempty"`
	Error  string   `json:"error"`
}

// showVerified returns a stores.ErrDamaged if a layer is damaged.
func showVerified(w io.Writer, output cli.Output, v stores.Verified, sample percent, seed uint32) error {
	shown := verified{
		Sample: sample.String(), Seed: seed, Stores: v.Stores, Layers: v.Layers, Bytes: v.Bytes,
		ReadLayers: v.ReadLayers, ReadBytes: v.ReadBytes, Damaged: []damagedLayer{},
	}
	var problem error
	for _, d := range v.Damaged {
		shown.Damaged = append(shown.Damaged, damagedLayer{
			d.Store.Slot, d.Store.ID.String(), d.Store.Name, d.Layer, d.Images, d.Err.Error(),
		})
		problem = fmt.Errorf("%w: %d damaged layers or records", stores.ErrDamaged, len(v.Damaged))
	}
	return show(w, output, shown, problem)
}

func (v verified) print(w io.Writer) error {
	for _, d := range v.Damaged {
		of := ""
		if d.Digest != "" {
			of = fmt.Sprintf(", store %s", strings.TrimSpace(d.Name+" "+stores.Short(digest.Digest(d.Digest))))
		}
		fmt.Fprintf(w, "slot %s%s: %s\n", d.Slot, of, d.Error)
		for _, name := range d.Images {
			fmt.Fprintf(w, "  in the image %s\n", name)
		}
	}
	if v.Stores == 0 {
		_, err := fmt.Fprintln(w, "no store is mounted")
		return err
	}
	chosen := ""
	if v.ReadLayers < v.Layers {
		chosen = fmt.Sprintf(", chosen by --seed %d", v.Seed)
	}
	_, err := fmt.Fprintf(w, "read %d of %d layers, %s of %s, in %d stores%s\n", v.ReadLayers, v.Layers,
		bytesize.Format(v.ReadBytes), bytesize.Format(v.Bytes), v.Stores, chosen)
	return err
}
