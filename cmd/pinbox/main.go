// Command pinbox builds offline appliances for CRI-O nodes.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/root"
)

func main() {
	if root.Init() {
		return
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(20) // 0.7 times the memory of Go's 100, for 1 % more time
	}
	// A closed pipe is an error of the write, whichever file it is: without this, one of stdout ends
	// the process. cli.Program ends a command whose output nobody reads.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	stderr := os.Stderr
	end := cli.Foreign(stderr, os.Args[1:])
	code := run(ctx, os.Args[1:], os.Stdout, stderr)
	end()
	stop()
	os.Exit(code)
}
