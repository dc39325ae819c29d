package main

import (
	"context"
	"io"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/codec"
	"github.com/pinbox/pinbox/storage/fault"
)

// linked is set by the linker.
var linked string

var version = cli.Version(linked)

const longHelp = `pinbox writes the images that a node must have into a read-only image store, each layer
once. It also writes the Ignition config that mounts the store and pins the images. When
the node boots, every image is there: nothing is pulled or copied.

Exit codes:
  0  success
  1  another failure; or a node of a fleet is not ready
  2  the command line is wrong
  3  the input is wrong: a file, a set, an image that is not for this platform;
     or lint found something
  4  content does not match its digest, its signature policy or its checksums
  5  no space left
  6  a registry, or the API of a cluster, cannot be reached, refuses, or stalls
  130  interrupted
  141  nobody reads the output any more`

// systemErrors are those that may come from anywhere.
var systemErrors = []cli.SystemError{
	{
		syscall.ENOSPC, fault.Space,
		"free space there, or write to another disk; `pinbox cache prune --all` empties the cache",
	},
	{
		syscall.EMFILE, fault.Other,
		"raise `ulimit -n`: a build opens a file for each layer whose pack has more than 64 KiB",
	},
	{syscall.EIO, fault.Other, "use another disk; the log of the kernel says what is wrong with this one"},
	{syscall.EDQUOT, fault.Space, "free space there, or write to another disk"},
	{
		syscall.EFBIG, fault.Space,
		"the file system, or `ulimit -f`, takes no file of this size (FAT: 4 GiB): choose another folder with -o, and " +
			"copy the result with `pinbox medium --split 4G`",
	},
	{syscall.EROFS, fault.Usage, "write to another folder"},
	{fs.ErrNotExist, fault.Input, "check the path"},
	{syscall.EISDIR, fault.Input, "name a file, not a folder"},
	{fs.ErrPermission, fault.Input, "check the owner and the permissions"},
}

// run is the whole program, callable from tests. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:     "pinbox",
		Short:   "Build offline appliances for CRI-O nodes",
		Long:    longHelp,
		Version: version + " (" + codec.ZstdID() + ")",
	}
	cli.Group(root, "Build", initCommand(), validateCommand(), doctorCommand(), planCommand(), buildCommand(),
		deltaCommand(), lockCommand(), mediumCommand(), runbookCommand())
	cli.Group(root, "Inspect", verifyCommand(), inspectCommand(), lsCommand(), catCommand(), extractCommand(),
		diffCommand(), lintCommand(), isoCommand())
	cli.Group(root, "Operate", fleetCommand())
	cli.Group(root, "Maintain", cacheCommand(), demoCommand(), cli.VersionCommand(version, codec.ZstdID()))
	cli.Group(root, "Help", docsCommand(), schemaCommand())
	root.AddCommand(registriesTopic())
	return cli.Program{Root: root, System: systemErrors}.Run(ctx, args, stdout, stderr)
}

// hooks returns hooks that show the progress of a build.
func hooks(p *cli.Progress) progress.Hooks {
	return progress.Hooks{
		Step: func(name string, total int64, unit progress.Unit) {
			if unit == progress.Items {
				p.Count(name, total)
			} else {
				p.Begin(name, total)
			}
		},
		Done:     func(n int) { p.Add(int64(n)) },
		Layer:    func(l progress.Layer) { p.Layer(l.Name, l.Done, l.Total, l.Ended) },
		Retrying: p.Note,
	}
}
