package mount

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
)

// The kernel escapes a space, a tab, a newline and a backslash in a path.
func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		"/a": "/a", `/a\040b`: "/a b", `\134\011x`: "\\\tx", `/a\040`: "/a ", `/a\04`: `/a\04`,
		`/a\9bcd`: `/a\9bcd`, `\`: `\`,
	} {
		t.Run(text, func(t *testing.T) {
			if got := unescape(text); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// fakeMounter counts the unmounts and does what a test wants instead.
type fakeMounter struct {
	Mounter
	unmounts int
	unmount  func(where string) error
}

func (m *fakeMounter) Unmount(_ context.Context, where string) error {
	m.unmounts++
	return m.unmount(where)
}

// Everything at a mount point is unmounted, also what a service manager does not know or cannot un
func TestUnmountAll(t *testing.T) {
	fixtures.NeedRoot(t)
	failed := errors.New("unit is in use")
	failing := func(where string) error { return errors.Join(failed, unmount(where)) }
	twice := func(where string) error { return errors.Join(unmount(where), unmount(where)) }
	for name, test := range map[string]struct {
		mounts    int
		unmount   func(where string) error
		cancelled bool
		calls     int
		want      error
	}{
		"nothing":                    {0, unmount, false, 0, nil},
		"one mount":                  {1, unmount, false, 1, nil},
		"three mounts":               {3, unmount, false, 1, nil},
		"no mount of a unit":         {1, func(string) error { return nil }, false, maxTries, nil},
		"a mount in use":             {1, func(string) error { return failed }, false, 1, nil},
		"a mount in use, cancelled":  {1, func(string) error { return failed }, true, 1, failed},
		"unmounted by another":       {1, failing, false, 1, nil},
		"two, unmounted by another":  {2, failing, false, 1, nil},
		"unmounted by another first": {1, twice, false, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			where := t.TempDir()
			for range test.mounts {
				if err := unix.Mount("tmpfs", where, "tmpfs", 0, ""); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() {
				for unmount(where) == nil { // until nothing is mounted
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancelled {
				cancel()
			}
			m := &fakeMounter{unmount: test.unmount}
			if err := UnmountAll(ctx, m, where); !errors.Is(err, test.want) || m.unmounts != test.calls {
				t.Errorf("got %v after %d unmounts, want %v after %d", err, m.unmounts, test.want, test.calls)
			}
			if err := unmount(where); (test.want == nil) != errors.Is(err, unix.EINVAL) {
				t.Errorf("one more unmount: got %v, want that nothing was mounted: %v", err, test.want == nil)
			}
		})
	}
}
