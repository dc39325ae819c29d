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
		debug.SetGCPercent(50) // memory is what others have too little of; it costs a percent of the time
	}
	// A reader that goes away ends the work in order, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	context.AfterFunc(ctx, stop) // so that a second signal ends what cannot be interrupted
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
