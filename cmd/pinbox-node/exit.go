package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/runtime"
)

// What commands here say themselves.
var (
	errUnhealthy = errors.New("not every image is on the node and pinned")
	errUsage     = errors.New("wrong command line")
	errBusy      = errors.New("another pinbox-node is at work")
)

// outcomes are the exit codes and hints of errors. The first match counts;
// anything else is 1. They are those of pinbox where both know one.
var outcomes = []struct {
	err  error
	code int
	hint string
}{
	{errUnhealthy, 1, ""},
	{errUsage, 2, "`pinbox-node help` shows commands and flags."},
	{runtime.ErrUnsupported, 3, "Update CRI-O."},
	{runtime.ErrSpace, 5, "Make room, take images out of the sets, or lower --reserve."},
	{errBusy, 7, "`pinbox-node status` shows what it does; --wait waits longer."},
	{context.Canceled, 130, ""},
}

// exit tells exit code and hint of an error.
func exit(err error) (code int, hint string) {
	if err == nil {
		return 0, ""
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.code, o.hint
		}
	}
	if strings.HasPrefix(err.Error(), "unknown command") { // cobra has no type for it
		return 2, "`pinbox-node help` shows commands and flags."
	}
	return 1, ""
}

func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("%w: --output %s: it is table or json", errUsage, output)
	}
	return nil
}
