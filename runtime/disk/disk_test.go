package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/runtime/disk"
)

func TestSpaceOfAPathThatIsNotThereYet(t *testing.T) {
	dir := t.TempDir()
	there, err := disk.Measure(dir)
	if err != nil || there.Total <= 0 || there.Free > there.Total {
		t.Fatalf("%+v, %v", there, err)
	}
	later, err := disk.Measure(filepath.Join(dir, "a/b"))
	if err != nil || later.Device != there.Device || later.Path != filepath.Join(dir, "a/b") {
		t.Errorf("%+v, %v", later, err)
	}
}

func TestStagedCountsBlobsOfPulls(t *testing.T) {
	dir := t.TempDir()
	if n := disk.Staged(filepath.Join(dir, "no-such")); n != 0 {
		t.Errorf("%d bytes in no folder", n)
	}
	for name, size := range map[string]int{
		"container_images_storage1/1": 100, "container_images_storage2/1": 20, "container_images_storage2/2": 3,
		"somebody-elses/1": 1000,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n := disk.Staged(dir); n != 123 {
		t.Errorf("%d bytes", n)
	}
}
