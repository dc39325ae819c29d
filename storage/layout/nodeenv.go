package layout

import (
	"slices"
	"strings"
)

// NodeEnvPath has variables of the environment for the units, such as those of a proxy.
const NodeEnvPath = "/etc/pinbox/node.env"

// flagsVariable had flags for all units, before NodeConfig had their settings.
const flagsVariable = "PINBOX_NODE_FLAGS"

// OldFlags returns a warning if the content of NodeEnvPath has flags; else "".
func OldFlags(env []byte) string {
	for line := range strings.Lines(string(env)) {
		if _, ok := strings.CutPrefix(strings.TrimSpace(line), flagsVariable+"="); ok {
			return flagsVariable + " in " + NodeEnvPath + " has no effect any more: write its settings into " +
				NodeConfigPath + ", where docs/format.md has their names, and remove it"
		}
	}
	return ""
}

// WithoutOldFlags returns a command line without the flags of the environment, which a unit of an earlier version still
// passes: if they were errors, CRI-O would start without its stores.
func WithoutOldFlags(args []string, getenv func(string) string) []string {
	flags := strings.Fields(getenv(flagsVariable))
	for i := range args {
		if n := len(flags); n > 0 && i+n <= len(args) && slices.Equal(args[i:i+n], flags) {
			return slices.Concat(args[:i], args[i+n:])
		}
	}
	return args
}
