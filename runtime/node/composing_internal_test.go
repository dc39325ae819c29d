package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Others see how far a store is that is put together, until it is complete; the progress that a killed process has
// left does not count.
func TestProgressOfAStoreThatIsPutTogether(t *testing.T) {
	o := Open(Settings{Set: []string{"status=" + filepath.Join(t.TempDir(), "run", "status.json")}})
	thin := digest.FromString("thin")
	of := stores.Store{Thin: thin, ReleaseID: pinset.ReleaseID{Name: "a", Number: 2}, Slot: "1", Images: 3, Size: 4}
	var called int64
	c := composing{file: o.composingFile(), next: during{
		stores.Composing, func(_ stores.Store, done, _ int64) { called = done },
	}}
	c.Done(stores.Composing, of, 0, 100)
	c.started, c.wrote = c.started.Add(-time.Minute), c.wrote.Add(-time.Minute)
	c.Done(stores.Composing, of, 25, 100)
	c.Done(stores.Composing, of, 30, 100) // too early to be written
	got := o.composingStores()
	if len(got) != 1 || got[0].State != runtime.StoreComposing || got[0].Digest != thin.String() || got[0].Name != "a" ||
		got[0].Slot != "1" || got[0].Progress == nil || got[0].Progress.Bytes != 25 || got[0].Progress.OfBytes != 100 {
		t.Errorf("got %+v, want one store with 25 of 100 bytes", got)
	} else if left := time.Until(got[0].Progress.ETA); left < 2*time.Minute || left > 4*time.Minute {
		t.Errorf("got %v left, want about 3 minutes", left)
	}
	if called != 30 {
		t.Errorf("got a call with %d bytes, want 30", called)
	}
	content, err := os.ReadFile(string(o.composingFile()))
	if err != nil {
		t.Fatal(err)
	}
	c.end()
	if got := o.composingStores(); len(got) != 0 {
		t.Errorf("got %+v after the end, want nothing", got)
	}
	if err := os.WriteFile(string(o.composingFile()), content, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := o.composingStores(); len(got) != 0 {
		t.Errorf("got %+v of a killed process, want nothing", got)
	}
}
