// Command pinbox-node looks after the pinned images of a node.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
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
		Use:               "pinbox-node",
		Short:             "Look after the pinned images of a node",
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(firstbootCommand(), runCommand(), statusCommand(), planCommand(),
		attachCommand(), detachCommand(), storesCommand(), rollbackCommand(), compactCommand(), mountCommand(), installStoreCommand())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", errUsage, err) })
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		fmt.Fprintf(stderr, "pinbox-node: %s\n", err)
	}
	code, hint := exit(err)
	if hint != "" {
		fmt.Fprintf(stderr, "  %s\n", hint)
	}
	return code
}
