package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// withEachPage calls do with a disk that has one more free page each time, until do succeeds. Before that,
// do must return ENOSPC, and check is called.
func withEachPage(t *testing.T, dir string, do func() error, check func()) {
	t.Helper()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	used, page := int64(disk.Blocks-disk.Bfree), int64(os.Getpagesize())
	for free := int64(1); free < 200 && !t.Failed(); free++ {
		fixtures.Run(t, "mount", "-o", fmt.Sprintf("remount,size=%d", (used+free)*page), dir)
		err := do()
		if err == nil {
			if t.Logf("succeeded with %d free pages", free); free < 3 {
				t.Errorf("got success with %d free pages, want several failures before", free)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d free pages: got %v, want %v", free, err, syscall.ENOSPC)
		}
		check()
	}
}

// Whichever write of an attach or a compaction does not fit on the disk: the stores stay as they were, and
// the next one that has space succeeds.
func TestNodesWithDisksOfAnySize(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "8m")
	for i, folder := range folders[1:] {
		withEachPage(t, filepath.Dir(m.Dir), func() error {
			_, err := m.Attach(t.Context(), stores.AttachOptions{Source: folder})
			return err
		}, func() {
			wantMounted(t, m, i)
		})
		wantMounted(t, m, i+1)
	}
	main := emptyMainStore(t)
	withEachPage(t, filepath.Dir(m.Dir), func() error {
		_, err := m.Compact(t.Context(), stores.CompactOptions{GraphRoots: []string{main}})
		return err
	}, func() {
		wantMounted(t, m, 2)
	})
	wantMounted(t, m, 2)
}
