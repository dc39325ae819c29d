package iso

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// A base may be on a medium in a drive. A bug was to take its size from stat(2), which is 0 for a device: the sum
// in the edited ISO was then that of nothing.
func TestBaseOnADevice(t *testing.T) {
	file := fixtures.LiveISO(t)
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	base, err := OpenBase(fixtures.LoopDevice(t, file))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	got, err := io.ReadAll(base.Reader())
	if err != nil || !bytes.HasPrefix(got, want[:len(want)/512*512]) {
		t.Errorf("got %d bytes, %v, want the %d of the file", len(got), err, len(want))
	}
}
