package stores

import (
	"slices"
	"testing"
)

func TestIsCorrupted(t *testing.T) {
	const status = "pinbox-store-0: 0 8192 verity V\npinbox-store-1: 0 8192 verity C\npinbox-store-11: 0 8 linear \n"
	for name, want := range map[string]bool{
		"pinbox-store-0": false, "pinbox-store-1": true, "pinbox-store-11": false, "pinbox-store-2": false,
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
