package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestNodeWithoutCRIO(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "crio.sock")
	for args, want := range map[string]string{
		"status --wait 200ms --socket " + socket:    "CRI-O does not answer on unix://" + socket,
		"firstboot --wait 200ms --socket " + socket: "CRI-O does not answer on unix://" + socket,
		"status --output yaml":                      "it is table or json",
		"status --fast":                             "unknown flag",
		"reboot":                                    "unknown command",
	} {
		var out, errOut bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &errOut); code != 1 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d\n%s", args, code, errOut.String())
		}
	}
}
