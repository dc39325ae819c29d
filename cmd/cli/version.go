package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Version returns the version of the program: the one that the linker has set, or else the one that `go install
// MODULE@VERSION` has stamped into it.
func Version(linked string) string {
	stamped := ""
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		stamped = info.Main.Version // else it is (devel)
	}
	return cmp.Or(linked, stamped, "dev")
}

// build is the result of `version --output json`.
type build struct {
	Program  string `json:"program"`
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Encoder of blocks, on which the bytes of a store depend; "" for a program that packs none.
	Encoder string `json:"encoder,omitempty"`
}

func (b build) print(w io.Writer) error {
	lines := []string{b.Program + " " + b.Version, "built by " + b.Go + " for " + b.Platform}
	if b.Encoder != "" {
		lines = append(lines, "encoder "+b.Encoder)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// VersionCommand shows the version of the program. encoder is "" for a program that packs no blocks.
func VersionCommand(version, encoder string) *cobra.Command {
	var output Output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, and how the program was built",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := build{cmd.Root().Name(), version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, encoder}
			if output.Text() {
				return b.print(cmd.OutOrStdout())
			}
			return output.Encode(cmd.OutOrStdout(), b)
		},
	}
	output.Add(cmd.Flags())
	Under("Output", cmd.Flags())
	return cmd
}
