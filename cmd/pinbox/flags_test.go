package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The pinbox-node of another architecture lies next to pinbox, or where its package puts it.
func TestNodeBinary(t *testing.T) {
	root := t.TempDir()
	bin, lib := filepath.Join(root, "bin"), filepath.Join(root, "lib/pinbox")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(lib, 0o755),
		os.WriteFile(filepath.Join(bin, "pinbox-node-arm64"), nil, 0o755),
		os.WriteFile(filepath.Join(lib, "pinbox-node-arm64"), nil, 0o755),
		os.WriteFile(filepath.Join(lib, "pinbox-node-s390x"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	for arch, want := range map[string]string{
		"arm64": "bin/pinbox-node-arm64", "s390x": "lib/pinbox/pinbox-node-s390x", "amd64": "bin/pinbox-node", "": "bin/pinbox-node",
	} {
		if got := nodeBinaryOf(bin, arch); got != filepath.Join(root, want) {
			t.Errorf("%q: got %s, want %s", arch, got, want)
		}
	}
}
