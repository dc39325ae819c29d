package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fetch"
)

func fetchStoreCommand() *cobra.Command {
	o := fetch.Options{Least: int64(runtime.DefaultLeastRate)}
	var store fetch.Store
	var sum string
	var output cli.Output
	cmd := &cobra.Command{
		Hidden: true, // its unit calls it
		Use:    "fetch-store URL FILE --digest DIGEST --size BYTES",
		Short:  "Fetch the node's store from an HTTP server, unless the file has it already",
		Args:   cobra.ExactArgs(2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if store.Digest, err = parseDigest(sum); err != nil {
				return err
			}
			if store.Digest == "" || store.Size <= 0 {
				return cli.Usagef("give --digest and --size")
			}
			store.Origin = args[0]
			progress := cli.NewProgress(cmd, output)
			o.Done = progress.Track("fetch the store")
			o.Note = progress.Note
			found, err := store.Fetch(cmd.Context(), args[1], o)
			progress.Close()
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), output, fetched{store.Digest.String(), args[1], found}, nil)
		},
	}
	cmd.Flags().StringVar(&sum, "digest", "", "`DIGEST` of the store's file")
	cmd.Flags().Int64Var(&store.Size, "size", 0, "its size in `BYTES`")
	cmd.Flags().DurationVar(&o.Stall, "stall", 0, "`TIME` to go on while nothing of the store arrives (default 5m)")
	cli.Under("Store", cmd.Flags())
	output.Add(cmd.Flags())
	cli.AddProgress(cmd)
	cli.Interrupted(cmd, "the file keeps what has come; run the command again to fetch the rest")
	return cmd
}

// fetched is the result of `fetch-store --output json`.
type fetched struct {
	Digest string `json:"digest"`
	Path   string `json:"path"`
	Found  bool   `json:"found"` // an earlier run had fetched it
}

func (f fetched) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "the store, %s, is in %s\n", f.Digest, f.Path)
	return err
}
