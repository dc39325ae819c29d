package layout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/layout"
)

func TestOldFlags(t *testing.T) {
	for env, want := range map[string]bool{
		"": false, "HTTPS_PROXY=http://proxy:3128\n": false, "# PINBOX_NODE_FLAGS=\"--pool worker\"\n": false,
		"NO_PROXY=x\n PINBOX_NODE_FLAGS=\"--pool worker\"\n": true,
	} {
		got := layout.OldFlags([]byte(env))
		if (got != "") != want || want && !strings.Contains(got, layout.NodeConfigPath) {
			t.Errorf("%q: got %q, want a warning with the cure: %v", env, got, want)
		}
	}
}

// A unit of an earlier version passes the flags of node.env: they are left out, and nothing else.
func TestWithoutOldFlags(t *testing.T) {
	const flags = "--pool worker --reserve 8Gi"
	for line, test := range map[string]struct{ flags, want string }{
		"mount --pool worker --reserve 8Gi --wait 5s":        {flags, "mount --wait 5s"},
		"attach --auto --pool worker --reserve 8Gi /dev/sr0": {flags, "attach --auto /dev/sr0"},
		"run --pool worker --reserve 8Gi":                    {flags, "run"},
		"mount --wiat 5s":                                    {flags, "mount --wiat 5s"},
		"mount --pool worker":                                {flags, "mount --pool worker"},
		"mount --pool worker --wait 5s":                      {"", "mount --pool worker --wait 5s"},
	} {
		got := layout.WithoutOldFlags(strings.Fields(line), func(string) string { return test.flags })
		if !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s with %q: got %q, want %s", line, test.flags, got, test.want)
		}
	}
}
