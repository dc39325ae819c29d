package aside_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/aside"
	"github.com/pinbox/pinbox/storage/layout"
)

// An image of CRI-O's own store that stands on a layer of another store, which is gone, is named. It is set aside only
// before CRI-O starts, and comes back with the store.
func TestImageOnAStoreThatIsGone(t *testing.T) {
	main, store := t.TempDir(), t.TempDir()
	layer := strings.Repeat("2", 64)
	pull := func(name, id string) {
		write(t, main, layout.ImagesFile, `[{"id":"`+id+`","layer":"`+layer+`","names":["`+name+`"]}]`)
		write(t, main, filepath.Join(layout.ImagesDir, id, "manifest"), "{}")
	}
	pull("quay.io/site/app:1", strings.Repeat("1", 64))
	layers := write(t, store, layout.LayersFile, `[{"id":"`+layer+`"}]`)
	r := aside.Records{Dir: filepath.Join(t.TempDir(), "state"), Main: []string{main}, Others: []string{store}}
	want := func(when string, broken bool, setAside int) {
		t.Helper()
		err := r.Broken(main)
		named := errors.Is(err, aside.ErrLayersGone) && strings.Contains(err.Error(), "quay.io/site/") &&
			strings.Contains(err.Error(), "the layer "+layer+" is in no store")
		if broken && !named || !broken && err != nil {
			t.Errorf("%s: got %v, want an error with the image and its layer: %v", when, err, broken)
		}
		if images, err := r.Images(); err != nil || len(images) != setAside {
			t.Errorf("%s: got %v, %v, want %d images set aside", when, images, err, setAside)
		}
	}
	mend := func(starts bool) {
		t.Helper()
		if err := r.Mend(t.Context(), starts); err != nil {
			t.Fatal(err)
		}
	}
	mend(true)
	want("with the store", false, 0)
	if err := os.Rename(layers, layers+".away"); err != nil {
		t.Fatal(err)
	}
	mend(false)
	want("without the store, while CRI-O runs", true, 0)
	mend(true)
	want("before CRI-O starts", false, 1)
	pull("quay.io/site/other:1", strings.Repeat("3", 64))
	mend(false)
	want("another image, while CRI-O runs", true, 1)
	mend(true)
	want("another image, before CRI-O starts", false, 2)
	if err := os.Rename(layers+".away", layers); err != nil {
		t.Fatal(err)
	}
	mend(false)
	want("with the store again", false, 0)
	content, err := os.ReadFile(filepath.Join(main, layout.ImagesFile))
	for _, name := range []string{"quay.io/site/app:1", "quay.io/site/other:1"} {
		if err != nil || !strings.Contains(string(content), name) {
			t.Errorf("got the images %s, %v, want %s, which was set aside", content, err, name)
		}
	}
}

// write writes a file of a store, and returns its path.
func write(t *testing.T, root, name, content string) string {
	t.Helper()
	path := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}
