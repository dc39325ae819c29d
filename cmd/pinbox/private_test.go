package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// Only their owner can read configs with the hash of a password, and a medium of a store that has some.
func TestConfigsWithSecretsArePrivate(t *testing.T) {
	r := serve(t, nil)
	pin := push(t, r, image(t, "amd64", layer(t, sample.File("a", "b"))))
	user := write(t, "user.bu", []byte("variant: fcos\nversion: 1.5.0\n"+
		"passwd:\n  users:\n  - name: core\n    password_hash: $y$x\n"))
	config := write(t, "appliance.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\n"+
		"spec:\n  sources:\n  - images: ['"+pin+"']\n  ignition: {butane: ["+user+"]}\n"+
		"  node: {store: {volumeLabel: LABEL}}\n"))
	out := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := pinbox(t.Context(), "build", "-c", config, "-o", out, "--insecure-registry=127.0.0.1", "--output", "json",
		"--node-binary", nodeProgram)
	var result struct{ Private bool }
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != fault.OK || !result.Private {
		t.Fatalf("got exit code %d, %v and private %v, want a private result\n%s", code, err, result.Private, stderr)
	}
	medium := filepath.Join(t.TempDir(), "medium.iso")
	err := os.Chmod(filepath.Join(out, "store.squashfs"), 0o600) // as if it had files of the user
	if code, _, stderr := pinbox(t.Context(), "medium", out, "-o", medium); err != nil || code != fault.OK {
		t.Fatalf("got exit code %d, %v, want a medium\n%s", code, err, stderr)
	}
	for _, name := range []string{filepath.Join(out, "config.ign"), filepath.Join(out, "config.bu"), medium} {
		fi, err := os.Stat(name)
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v of %s, want mode 0600", fi.Mode(), err, name)
		}
	}
}
