package runtime

import (
	"errors"
	"testing"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// Pulls that need exactly the available space fit; a byte or an inode more does not.
func TestSpaceAtTheLimits(t *testing.T) {
	for name, test := range map[string]struct {
		limits Limits
		claim  Claim
		ok     bool
	}{
		"all but the reserve": {
			Limits{Reserve: bytesize.Reserve{Bytes: 10}}, Claim{Space: disk.Space{Total: 100, Free: 30}, Bytes: 20}, true,
		},
		"a byte of the reserve": {
			Limits{Reserve: bytesize.Reserve{Bytes: 10}}, Claim{Space: disk.Space{Total: 100, Free: 30}, Bytes: 21}, false,
		},
		"all, and collection at 100 %": {
			Limits{GCPercent: 100}, Claim{Space: disk.Space{Total: 100, Free: 30}, Bytes: 30, Store: true}, true,
		},
		"all, and collection at 99 %": {
			Limits{GCPercent: 99}, Claim{Space: disk.Space{Total: 100, Free: 30}, Bytes: 30, Store: true}, false,
		},
		"file system of unknown size": {Limits{GCPercent: 85}, Claim{Store: true}, true},
		"all inodes but the reserve": {
			Limits{Reserve: bytesize.Reserve{Percent: 10}},
			Claim{Space: disk.Space{Total: 100, Free: 100, Inodes: 100, FreeInodes: 30}, Inodes: 20}, true,
		},
		"an inode of the reserve": {
			Limits{Reserve: bytesize.Reserve{Percent: 10}},
			Claim{Space: disk.Space{Total: 100, Free: 100, Inodes: 100, FreeInodes: 30}, Inodes: 21}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.limits.check(test.claim)
			if (err == nil) != test.ok || err != nil && !errors.Is(err, ErrSpace) {
				t.Errorf("got %v, want it to fit: %v", err, test.ok)
			}
		})
	}
}

func TestGCPercent(t *testing.T) {
	for percent, ok := range map[int]bool{-1: false, 0: true, 85: true, 100: true, 101: false} {
		err := Options{Limits: Limits{GCPercent: percent}}.validate()
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrOptions) {
			t.Errorf("%d %%: got %v, want it accepted: %v", percent, err, ok)
		}
	}
}
