package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// reportKey is the node's own secret key, if it has one.
const reportKey = "/etc/pinbox/report.key"

func reportCommand() *cobra.Command {
	var f nodeFlags
	var file, key string
	cmd := &cobra.Command{
		Use:     "report -o FILE",
		Short:   "Write the status into a file that `pinbox fleet status` and `pinbox delta` read",
		Example: "  pinbox-node report -o /run/media/stick/reports/node1.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return cli.Usagef("name a file with -o")
			}
			signer, err := reportSigner(key)
			if err != nil {
				return err
			}
			status, err := f.open().Status(cmd.Context())
			if err != nil {
				return err
			}
			r := fleet.NewReport(status)
			o := fleet.NewObject(strings.ToLower(status.Node), "", &r)
			if o.Content, err = f.open().Contents(); err != nil { // a report of the others is better than none
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: the report does not list the layers of all stores: %v\n", err)
			}
			if err := o.Write(file, signer); err != nil {
				return err
			}
			signed := ""
			if !signer.IsZero() {
				signed = ", signed by " + file + layout.SignatureSuffix
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s%s: %s\n", file, signed, status.Summary())
			return err
		},
	}
	f.addNode(cmd.Flags(), 10*time.Second)
	cmd.Flags().StringVarP(&file, "out", "o", "", "`FILE` to write, such as /media/stick/reports/NODE.json")
	cli.Files(cmd.Flags(), "out", "json")
	cmd.Flags().StringVar(&key, "sign-key", "",
		"`FILE` of a secret key in PEM, without a passphrase (default: "+reportKey+
			" if there is one)")
	cli.Files(cmd.Flags(), "sign-key", "key", "pem")
	cli.Under("Output", cmd.Flags())
	return cmd
}

// reportSigner reads a key: the named one, or that of the node. Without one, the signer signs nothing.
func reportSigner(key string) (signature.Signer, error) {
	if key != "" {
		return signature.ReadSigner(key, nil)
	}
	signer, err := signature.ReadSigner(reportKey, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return signature.Signer{}, nil
	}
	return signer, err
}
