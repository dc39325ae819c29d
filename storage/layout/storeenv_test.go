package layout_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/storage/layout"
)

// A shell, which is its reader, finds the values, and so does ParseStoreEnv.
func TestStoreEnv(t *testing.T) {
	want := layout.StoreEnv{
		Path: "/run/media/iso/pinbox/store.squashfs", Label: "PINBOX_2", Verity: layout.VerityRequire,
		RootHash: strings.Repeat("0a", 32), Blocks: 1 << 40, Program: strings.Repeat("f1", 32),
	}
	got, err := layout.ParseStoreEnv(want.Render())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	out, err := exec.Command("sh", "-euc", string(want.Render())+`echo "$STORE|$LABEL|$VERITY|$ROOT_HASH|$BLOCKS|$PROGRAM_SHA256"`).Output()
	if text := want.Path + "|PINBOX_2|require|" + want.RootHash + "|1099511627776|" + want.Program + "\n"; err != nil || string(out) != text {
		t.Errorf("a shell: got %q, %v, want %q", out, err, text)
	}
	if _, err := layout.ParseStoreEnv([]byte("STORE=/x\nSTROE=/y\n")); err == nil || !strings.Contains(err.Error(), "STROE") {
		t.Errorf("got %v, want an error with the name", err)
	}
}
