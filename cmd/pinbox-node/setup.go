package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/runtime/setup"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/fault"
)

const longSetup = `Write the files and units by which this machine uses stores, and restart CRI-O once.
It must have CRI-O 1.31 or newer and systemd, and must not be a node of the Machine Config Operator.

With --root, write into the folder of an operating system's image instead. Nothing is started there;
systemd makes the mount points at each boot.

Exit code 1 of --check means that something is to be done, 0 that nothing is.`

func setupCommand() *cobra.Command {
	var o setup.Options
	var f nodeFlags
	var check, undo, yes bool
	var store string
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make a node of a machine with CRI-O that has no Ignition",
		Long:  longSetup,
		Example: `  pinbox-node setup --check
  pinbox-node setup --store /mnt/usb
  pinbox-node setup --root / --program /usr/bin/pinbox-node --store /usr/share/pinbox/store`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if undo && store != "" {
				return cli.Usagef("--undo does not go with --store")
			}
			if o.Self, err = os.Executable(); err != nil {
				return err
			}
			if o.Root != "" {
				o.ImageStore = store
			}
			o.Socket, o.Wait, o.Set = f.open().Socket(), f.settings.Wait, f.settings.Set
			s, err := setup.New(o)
			if err != nil {
				return err
			}
			if store != "" && o.Root == "" {
				progress := cli.NewProgress(cmd, f.output)
				err := f.open().Probe(cmd.Context(), store, progress.Note) // before anything is written
				progress.Close()
				if err != nil {
					return err
				}
			}
			if undo && !check && !yes {
				plan, _ := f.setUp(cmd.Context(), s, true, true) // undoing has the same error
				if err := confirmRemoval(cmd, plan.Detach); err != nil {
					return err
				}
			}
			r := setUp{check: check}
			r.Result, err = f.setUp(cmd.Context(), s, check, undo)
			if err == nil && store != "" && !check && o.Root == "" {
				r.Attached, err = attachFirst(cmd, f, store)
			}
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), f.output, r, r.problem())
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only say what would be done, also with --undo")
	cmd.Flags().BoolVar(&undo, "undo", false,
		"remove what setup has written and nobody has changed, and all stores, unless something uses one")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask on a terminal before --undo")
	cmd.Flags().StringVar(&store, "store", "",
		"`PATH` of a store to attach: a file, a folder, or the device of a medium; with --root, a path in the image, "+
			"which is attached at boot")
	cmd.Flags().StringVar(&o.Root, "root", "", "`DIR` of an image of an operating system")
	cmd.Flags().StringVar(&o.CRIOVersion, "crio-version", "",
		"`VERSION` of CRI-O in an image whose program and packages do not tell it: nothing of an image is run")
	cmd.Flags().StringVar(&o.Program, "program", "", "`PATH` of pinbox-node on the machine (default: "+
		provision.PackagedProgram+" if a package has installed it, else "+provision.DefaultProgram+")")
	cmd.Flags().BoolVar(&o.AutoAttach, "auto-attach", false, "attach a medium with a later release when it is plugged in")
	cmd.Flags().BoolVar(&o.CopyVolumes, "image-volumes", false,
		"copy the images of image volumes into CRI-O's own store, where pods can mount them")
	cmd.Flags().BoolVar(&o.Podman, "podman", false, "make podman see the stores, too")
	cli.Under("Machine", cmd.Flags())
	f.add(cmd.Flags(), 2*time.Minute)
	cli.AddProgress(cmd)
	return cli.Common(cmd, "check", "undo", "yes", "store", "root", "crio-version", "auto-attach", "image-volumes",
		"podman", "config", "set", "wait", "output")
}

// setUp sets the machine up, or undoes that, or only says what it would do.
func (f nodeFlags) setUp(ctx context.Context, s setup.Setup, check, undo bool) (setup.Result, error) {
	switch {
	case check && undo:
		r, err := s.CheckUndo()
		if err == nil && s.Root == "" {
			r.Detach, err = f.open().ToDetach()
		}
		return r, err
	case check:
		return s.Check(ctx)
	case undo:
		return s.Undo(ctx, func(ctx context.Context) error { return f.open().DetachAll(ctx) })
	}
	return s.Run(ctx)
}

// attachFirst attaches a store to the machine that was set up, and pins its images.
func attachFirst(cmd *cobra.Command, f nodeFlags, store string) (*attached, error) {
	progress := cli.NewProgress(cmd, f.output)
	f.settings.Waiting = func(why error) { progress.Note(why.Error()) }
	a, err := f.open().Attach(cmd.Context(),
		stores.AttachOptions{Source: store, Progress: attachProgress{progress}})
	progress.Close()
	if err != nil {
		return nil, fmt.Errorf("the machine is set up, but the store is not attached: %w", err)
	}
	status, err := f.open().ApplySets(cmd.Context())
	described := describeAttached(a, status)
	return &described, err
}

// setUp is the result of `setup --output json`.
type setUp struct {
	setup.Result
	Attached *attached `json:"attached,omitempty"`

	check bool
}

// errPending is the error of a check that finds something to do.
var errPending = fault.New(fault.Other, "something is to be done", "")

// problem is errPending for a check that finds something to do.
func (s setUp) problem() error {
	switch {
	case s.check && s.Pending():
		return errPending
	case s.Attached != nil && !s.Attached.Status.Healthy():
		return errUnhealthy
	}
	return nil
}

func (s setUp) print(w io.Writer) error {
	did := map[setup.Action]string{
		setup.Create: "written", setup.Replace: "replaced", setup.Remove: "removed",
		setup.Keep: "kept, since somebody has changed it",
	}
	restart := "CRI-O was restarted"
	if s.check {
		restart = "CRI-O would be restarted"
		for action, word := range map[setup.Action]string{
			setup.Create: "would be written", setup.Replace: "would be replaced", setup.Remove: "would be removed",
		} {
			did[action] = word
		}
	}
	if s.CRIO != "" {
		fmt.Fprintf(w, "CRI-O %s\n", s.CRIO)
	}
	for _, name := range s.Detach {
		fmt.Fprintf(w, "the store %s: would be detached\n", name)
	}
	for _, c := range s.Changes {
		fmt.Fprintf(w, "%s: %s\n", c.Path, did[c.Action])
	}
	if s.Restart {
		fmt.Fprintln(w, restart)
	}
	for _, note := range s.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	if s.Attached != nil {
		return s.Attached.print(w)
	}
	if !s.Pending() {
		_, err := fmt.Fprintln(w, "nothing is to be done")
		return err
	}
	return nil
}
