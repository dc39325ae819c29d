package mount

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/verity"
)

// fakePrograms replaces the programs in PATH by shell scripts.
func fakePrograms(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

// dm-verity is available if dmsetup lists it, perhaps once its module is loaded.
func TestAvailable(t *testing.T) {
	const none, some = "echo 'linear v1.4.0'", "echo 'linear v1.4.0'; echo 'verity v1.9.0'"
	for name, test := range map[string]struct {
		scripts map[string]string
		want    error
	}{
		"no dmsetup": {nil, errNoDMSetup},
		"built in":   {map[string]string{"dmsetup": some, "modprobe": "exit 1"}, nil},
		"a module": {map[string]string{
			"dmsetup":  "if [ -e ${0%/*}/loaded ]; then " + some + "; else " + none + "; fi",
			"modprobe": "[ $1 = dm-verity ] && : >${0%/*}/loaded",
		}, nil},
		"no module":           {map[string]string{"dmsetup": none, "modprobe": "exit 1"}, errNoTarget},
		"no device mapper":    {map[string]string{"dmsetup": some + "; exit 1", "modprobe": "exit 1"}, errNoTarget},
		"another of its name": {map[string]string{"dmsetup": "echo 'verity2 v1.0.0'", "modprobe": ""}, errNoTarget},
	} {
		t.Run(name, func(t *testing.T) {
			fakePrograms(t, test.scripts)
			if err := (DMSetup{}).Available(t.Context()); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// dmsetup gets a loop device of the store alone, which goes when dmsetup does not keep it.
func TestOpenGivesDMSetupALoopDevice(t *testing.T) {
	fixtures.NeedRoot(t)
	file := filepath.Join(t.TempDir(), "medium.iso")
	const size = 2 * verity.BlockSize
	content := strings.Repeat("a", verity.BlockSize) + strings.Repeat("b", size) + strings.Repeat("c", 512)
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	e, tree := Extent{Path: file, Offset: verity.BlockSize, Size: size}, verity.Tree{Root: digest.FromString("root"), Blocks: 1}
	// The fifth word of the table is the device: Documentation/admin-guide/device-mapper/verity.rst.
	dir := fakePrograms(t, map[string]string{
		"dmsetup": "echo $1 $2 $3 >${0%/*}/arguments; set -- $5; /bin/cat $5 >${0%/*}/read",
	})
	device, err := DMSetup{}.Open(t.Context(), "pinbox-store-1", e, tree)
	if err != nil || device != "/dev/mapper/pinbox-store-1" {
		t.Errorf("got %s, %v, want /dev/mapper/pinbox-store-1", device, err)
	}
	for name, want := range map[string]string{
		"arguments": "create --readonly pinbox-store-1\n", "read": strings.Repeat("b", size),
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %d bytes, %v, want %d: %.40s", name, len(got), err, len(want), want)
		}
	}
	fakePrograms(t, map[string]string{"dmsetup": "echo busy; exit 1"})
	if _, err := (DMSetup{}).Open(t.Context(), "x", e, tree); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v, want the error of dmsetup", err)
	}
	e.Path = filepath.Join(t.TempDir(), "missing")
	if _, err := (DMSetup{}).Open(t.Context(), "x", e, tree); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

func TestIsCorrupted(t *testing.T) {
	const status = "pinbox-store-0: 0 8192 verity V\npinbox-store-1: 0 8192 verity C\npinbox-store-11: 0 8 linear \n" +
		"pinbox-store-12: 0 8192 verity\n"
	for name, want := range map[string]bool{
		"pinbox-store-0": false, "pinbox-store-1": true, "pinbox-store-11": false, "pinbox-store-2": false,
		"pinbox-store-12": false,
	} {
		if got := isCorrupted(status, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestFindCorrupt(t *testing.T) {
	const log = `6,1,1,-;device-mapper: ioctl: 4.47.0
3,2,2,-;device-mapper: verity: 7:1: data block 12 is corrupted
3,3,3,-;device-mapper: verity: 7:1: data block 12 is corrupted
3,4,4,-;device-mapper: verity: 7:1: metadata block 3 is corrupted
3,5,5,-;device-mapper: verity: 7:12: data block 1 is corrupted
`
	if got, want := findCorrupt([]byte(log), "7:1"), []int64{3 * 4096, 12 * 4096}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
