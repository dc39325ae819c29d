// Command pinbox-node looks after the pinned images of a node.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, callable from tests. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:     "pinbox-node",
		Short:   "Look after the pinned images of a node",
		Version: version,
	}
	cli.Group(root, "Images", statusCommand(), planCommand(), firstbootCommand(), runCommand())
	cli.Group(root, "Stores", attachCommand(), detachCommand(), storesCommand(), rollbackCommand(), compactCommand())
	cli.Group(root, "Boot and installation", mountCommand(), installStoreCommand())
	return cli.Program{Root: root, Rows: table}.Run(ctx, args, stdout, stderr)
}
