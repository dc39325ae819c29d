package cache_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/cache"
)

// The folder may be one in which others create files, as /tmp; the folders of the entries may not.
func TestFoldersThatOthersCanWrite(t *testing.T) {
	fixtures.NeedRoot(t) // to give folders away
	for name, test := range map[string]struct {
		folder string
		mode   os.FileMode
		owner  int
		want   error
	}{
		"private":                    {".", 0o700, 0, nil},
		"readable":                   {".", 0o755, 0, nil},
		"sticky":                     {".", 0o777 | os.ModeSticky, 0, nil},
		"writable":                   {".", 0o757, 0, cache.ErrWritable},
		"writable for a group":       {".", 0o775, 0, cache.ErrWritable},
		"of another user":            {".", 0o700, 1000, cache.ErrWritable},
		"entries, writable":          {"layers", 0o777 | os.ModeSticky, 0, cache.ErrWritable},
		"an encoding, writable":      {"layers/" + encoding, 0o770, 0, cache.ErrWritable},
		"an encoding of another one": {"layers/" + encoding, 0o700, 1000, cache.ErrWritable},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := open(t)
			put(t, c, key("a"), "text")
			folder := filepath.Join(dir, test.folder)
			if err := errors.Join(os.Chmod(folder, test.mode), os.Chown(folder, test.owner, 0)); err != nil {
				t.Fatal(err)
			}
			if _, err := cache.Open(dir); !errors.Is(err, test.want) {
				t.Errorf("Open: got %v, want %v", err, test.want)
			}
		})
	}
}
