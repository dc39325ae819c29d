package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/runtime/disk"
)

func TestMeasureMissingPath(t *testing.T) {
	dir := t.TempDir()
	parent, err := disk.Measure(dir)
	if err != nil || parent.Total <= 0 || parent.Free > parent.Total {
		t.Fatalf("got %+v, %v, want free bytes of a total", parent, err)
	}
	path := filepath.Join(dir, "a/b")
	got, err := disk.Measure(path)
	if err != nil || got.Device != parent.Device || got.Path != path {
		t.Errorf("got %+v, %v, want %s on device %d", got, err, path, parent.Device)
	}
}

func TestStagedCountsBlobsOfPulls(t *testing.T) {
	dir := t.TempDir()
	if n := disk.Staged(filepath.Join(dir, "no-such")); n != 0 {
		t.Errorf("no folder: got %d bytes, want 0", n)
	}
	for name, size := range map[string]int{
		"container_images_storage1/1": 100, "container_images_storage2/1": 20, "container_images_storage2/2": 3,
		"other/1": 1000,
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
		t.Errorf("got %d bytes, want 123", n)
	}
}
