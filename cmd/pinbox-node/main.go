// Command pinbox-node keeps the images of a node pinned and present, and attaches stores to it.
package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/root"
)

// linked is set by the linker.
var linked string

var version = cli.Version(linked)

func main() {
	if root.Init() { // a child that unpacks a layer
		return
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // 0.7 times the memory of Go's 100, with 2,000 images, and as much time
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	stderr := os.Stderr
	args := layout.WithoutOldFlags(os.Args[1:], os.Getenv)
	end := cli.Foreign(stderr, args)
	code := run(ctx, args, os.Stdout, stderr)
	end()
	stop()
	os.Exit(code)
}

const longHelp = `pinbox-node makes CRI-O pin the images of a node's PinnedImageSets, pulls missing ones,
and attaches stores of images to the node while CRI-O runs.

Exit codes:
  0  success; every image is on the node and pinned
  1  an image is missing or not pinned, or another failure
  2  the command line is wrong
  3  the machine, CRI-O, a disk, a store, its base or its release is not suitable
  4  a store, a medium or a disk is damaged or lost, or a signature is not good
  5  too little space, or no free slot
  7  another pinbox-node is running
  130  interrupted
  141  nobody reads the output any more`

// systemErrors are those that may come from anywhere.
var systemErrors = []cli.SystemError{
	{fs.ErrPermission, fault.Other, "run it as root"},
	{syscall.EIO, fault.Other, "the disk or the medium fails: the log of the kernel says more"},
	{
		syscall.EFBIG, fault.Space,
		"the file system, or `ulimit -f`, takes no file of this size (FAT: 4 GiB): choose another folder",
	},
	{syscall.ENOSPC, fault.Space, "free space; `pinbox-node detach` removes stores that are not used"},
}

// run is the whole program, callable from tests. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	program := &cobra.Command{
		Use:     "pinbox-node",
		Short:   "Keep the images of a node pinned and present",
		Long:    longHelp,
		Version: version,
	}
	cli.Group(program, "Images", statusCommand(), reportCommand(), planCommand(), firstbootCommand(), runCommand(),
		copyVolumesCommand())
	cli.Group(program, "Stores", attachCommand(), detachCommand(), rollbackCommand(), compactCommand(),
		verifyCommand())
	cli.Group(program, "Boot and installation", setupCommand(), mountCommand(), installStoreCommand(),
		fetchStoreCommand(), cli.VersionCommand(version, ""))
	return cli.Program{Root: program, System: systemErrors}.Run(ctx, args, stdout, stderr)
}
