package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/codec"
)

// linked is set by the linker.
var linked string

var version = cli.Version(linked)

// run is the whole program, callable from tests. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "pinbox",
		Short: "Build offline appliances for CRI-O nodes",
		Long: `pinbox writes the images that a node must have into a read-only image store, each layer
once. It also writes the Ignition config that mounts the store and pins the images. When
the node boots, every image is there: nothing is pulled or copied.

` + exitHelp(),
		Version: version + " (" + codec.ZstdID() + ")",
	}
	cli.Group(root, "Build", initCommand(), validateCommand(), planCommand(), buildCommand(), deltaCommand(),
		lockCommand(), mediumCommand())
	cli.Group(root, "Inspect", verifyCommand(), inspectCommand(), diffCommand(), lintCommand(),
		isoCommand())
	cli.Group(root, "Operate", fleetCommand())
	cli.Group(root, "Maintain", cacheCommand(), demoCommand(), cli.VersionCommand(version, codec.ZstdID()))
	return cli.Program{Root: root, Rows: table}.Run(ctx, args, stdout, stderr)
}
