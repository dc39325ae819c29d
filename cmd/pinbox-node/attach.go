package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/stores"
)

// mostURLs is how many URLs a store can have.
const mostURLs = 16

// attachProgress shows the progress of an attach.
type attachProgress struct{ shown *cli.Progress }

// Done implements stores.Progress.
func (p attachProgress) Done(step stores.Step, _ stores.Store, done, all int64) {
	p.shown.Track(string(step))(done, all)
}

// Note implements stores.Progress.
func (p attachProgress) Note(line string) { p.shown.Note(line) }

func attachCommand() *cobra.Command {
	var f nodeFlags
	var o stores.AttachOptions
	var sum string
	cmd := &cobra.Command{
		Use:   "attach {delta.squashfs | delta.thin | DIR | DEVICE | URL... | RELEASE}",
		Short: "Attach a store to the node, and pin the images of its sets",
		Example: `  pinbox-node attach /dev/sr0
  pinbox-node attach /mnt/delta --in-place
  pinbox-node attach https://files.example.com/releases/42/
  pinbox-node attach https://ship.example/42/ https://files.example.com/42/    # asked in turn
  pinbox-node attach 42    # a store that the node has: by number, name, digest or slot`,
		Args: named("the store: its file, a folder, the device of a medium, URLs, or one that the node has",
			mostURLs),
		ValidArgsFunction: anyFile,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Digest, err = parseDigest(sum); err != nil {
				return err
			}
			if o.Force && o.Auto {
				return cli.Usagef("--auto does not go with --force: only you can decide that a release goes back")
			}
			if o.Auto && f.settings.DryRun {
				return cli.Usagef("--auto does not go with --dry-run")
			}
			o.Source, o.Mirrors = args[0], args[1:]
			progress := cli.NewProgress(cmd, f.output)
			if o.Force {
				progress.Note("--force: neither the appliance nor the order of the releases is checked")
			}
			o.Progress = attachProgress{progress}
			f.settings.Waiting = func(why error) { progress.Note(fmt.Sprintf("%v; waiting for a medium that has it", why)) }
			attached, err := f.open().Attach(cmd.Context(), o)
			progress.Close()
			if err != nil {
				return err
			}
			if f.settings.DryRun {
				return showPlannedAttach(cmd.OutOrStdout(), f.output, f.open(), attached)
			}
			f.settings.Waiting = func(why error) { fmt.Fprintf(cmd.ErrOrStderr(), "%v; waiting\n", why) }
			status, err := f.open().ApplySets(cmd.Context())
			return showWithStatus(cmd, f.output, describeAttached(attached, status), err)
		},
	}
	cmd.Flags().StringVar(&sum, "digest", "",
		"`DIGEST` of the store's file (default: from SHA256SUMS or sums.txt next to it)")
	cmd.Flags().BoolVar(&o.InPlace, "in-place", false, "use the store where it is instead of copying it")
	cmd.Flags().BoolVar(&o.KeepSets, "keep-sets", false, "leave the sets as they are, and attach the store alone")
	cmd.Flags().BoolVar(&o.Force, "force", false,
		"also attach a release that is not newer than those of the node, or one of another appliance")
	cmd.Flags().BoolVar(&o.Auto, "auto", false,
		"for a medium that was plugged in: change nothing if its store is attached or was attached before")
	cmd.Flags().BoolVar(&f.settings.DryRun, "dry-run", false,
		"read and verify the store, show what would be attached, pinned and unpinned, and change nothing")
	cli.Under("Store", cmd.Flags())
	f.add(cmd.Flags(), 2*time.Minute)
	cli.AddProgress(cmd)
	return cmd
}
