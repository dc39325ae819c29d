package stores_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// A real CRI-O cannot list any image with the store, although each of its documents has its digest: the
// store is removed by itself, and CRI-O lists as before.
func TestStoreThatStopsCRIOFromListing(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 1)
	folder := testStore{n: 9, release: pinset.ReleaseID{Name: "appliance"}}.folder(t)
	s.wantExit(4, "CRI-O cannot list its images with the store", "attach", filepath.Join(folder, "delta.squashfs"))
	s.wantPinned(0)
	if n := s.countMounts(); n != 1 {
		t.Errorf("got %d mounted stores, want the appliance's own", n)
	}
	if said := s.mustRun("status"); !strings.Contains(said.Out, "refused") {
		t.Errorf("got %s, want the refused store and the reason", said.Out)
	}
	if text, err := os.ReadFile(filepath.Join(s.Sets(), "worker.yaml")); err != nil ||
		!strings.Contains(string(text), s.pins[0][0]) {
		t.Errorf("got the set %s, %v, want that of the appliance", text, err)
	}
	// Without CRI-O nobody can be asked.
	s.Stop(syscall.SIGTERM)
	s.Do("attach", "--wait", "1s", "--keep-sets", filepath.Join(folder, "delta.squashfs"))
	if n := s.countMounts(); n != 2 {
		t.Errorf("got %d mounted stores, want both", n)
	}
}

// damageRecords overwrites the block of a squashfs in which images.json is, so that the kernel cannot
// read it. The rest of the store stays readable.
func damageRecords(t *testing.T, file string) {
	t.Helper()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reads := func(image []byte) (records, rest bool) {
		r, err := squashfs.OpenImage(bytes.NewReader(image), int64(len(image)))
		if err != nil {
			return false, false
		}
		_, recordsErr := r.ReadFile(layout.ImagesFile)
		_, err = fs.ReadDir(r, layout.ImagesDir)
		return recordsErr == nil, err == nil
	}
	const window = 512
	inodes := binary.LittleEndian.Uint64(whole[64:]) // where the tables begin: without them, nothing is mounted
	for at := int(inodes) - window; at > window; at -= window {
		image := bytes.Clone(whole)
		copy(image[at:], bytes.Repeat([]byte{0xa5}, window))
		if records, rest := reads(image); !records && rest {
			if err := os.WriteFile(file, image, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("got no block with images.json")
}

// noLoop returns an error if there is a loop device of one of the files.
func noLoop(t *testing.T, files ...string) error {
	t.Helper()
	for _, file := range files {
		if devices := fixtures.Run(t, "losetup", "--associated", file); devices != "" {
			return fmt.Errorf("got %s, want none", devices)
		}
	}
	return nil
}

// With a record that cannot be read CRI-O does not start at all. `pinbox-node mount`, which runs before,
// leaves such a store away, the appliance's own too; CRI-O starts with the others.
func TestRecordsThatCannotBeReadDoNotStopCRIO(t *testing.T) {
	t.Parallel()
	s := newOwnSystem(t, 2)
	s.mustRun("attach", s.stores[1])
	copied, err := filepath.Glob(filepath.Join(s.Root, "var/lib/pinbox/stores.d/*.squashfs"))
	if err != nil || len(copied) != 1 {
		t.Fatalf("got the copies %v, %v, want one", copied, err)
	}
	own := filepath.Join(s.stores[0], layout.StoreFile)
	images := func() int {
		t.Helper()
		list, err := s.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Images)
	}
	reboot := func(damaged string) {
		t.Helper()
		s.Stop(syscall.SIGTERM)
		s.Run("sh", "-c", "umount /var/lib/pinbox/stores/1; umount /var/lib/pinbox/stores/0; true")
		fixtures.Until(t, func() error { // the kernel removes a loop device a little after its last use
			return noLoop(t, copied[0], own)
		})
		damageRecords(t, damaged)
		s.MountUnit("var-lib-pinbox-stores-0.mount")
	}
	before := images()
	reboot(copied[0])
	s.wantExit(1, "the store is damaged: overlay-", "mount")
	s.Start()
	if got := images(); got == 0 || got >= before {
		t.Errorf("with a damaged delta: got %d images, want those of the base, of %d", got, before)
	}
	reboot(own)
	s.wantExit(1, "the appliance's own store was unmounted: overlay-", "mount")
	s.Start()
	if got := images(); got != 0 {
		t.Errorf("with a damaged base: got %d images, want none", got)
	}
	if said := s.Do("status"); said.Code != 1 || !strings.Contains(said.Out, "own store was unmounted") {
		t.Errorf("status: got exit code %d and %s, want 1 and the reason", said.Code, said.Out)
	}
}
