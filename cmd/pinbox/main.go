// Command pinbox builds offline appliances for CRI-O nodes.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/pinbox/pinbox/storage/root"
)

func main() {
	if root.Init() {
		return
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // half the memory for 1 % more time
	}
	// SIGPIPE: the reader of the output has ended.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
