package audit_test

import (
	"io"
	"testing"
	"testing/fstest"

	"github.com/pinbox/pinbox/storage/audit"
)

// A tar-split file may have names that climb out of the layer. What is opened is in the layer all the same, as in a
// container, whose root has no folder above it.
func TestNamesThatClimbOutOfTheLayer(t *testing.T) {
	files := fstest.MapFS{
		"etc/passwd":                {Data: []byte("host")},
		"overlay/etc/passwd":        {Data: []byte("host")},
		"overlay/a/etc/passwd":      {Data: []byte("host")},
		"overlay/b/diff/etc/passwd": {Data: []byte("host")},
		"overlay/b/diff/etc/shadow": {Data: []byte("host")},
		"overlay/a/diff/etc/passwd": {Data: []byte("ours")},
	}
	for _, name := range []string{
		"etc/passwd", "/etc/passwd", "../etc/passwd", "../../../etc/passwd", "x/../../../b/../etc/passwd",
	} {
		f, err := audit.SplitLine{Name: name, Size: 4}.Open(files, "a")
		if err != nil {
			t.Errorf("%s: got %v, want the layer's file", name, err)
			continue
		}
		if content, err := io.ReadAll(f); string(content) != "ours" || err != nil {
			t.Errorf("%s: got %q, %v, want the layer's file", name, content, err)
		}
	}
	if _, err := (audit.SplitLine{Name: "../../b/diff/etc/shadow", Size: 4}).Open(files, "a"); err == nil {
		t.Error("../../b/diff/etc/shadow: got a file, want none: it is in another layer")
	}
}
