package crio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/crio"
)

// A CRI-O that runs is asked itself, once it answers: an option of its command line replaces what its files say.
func TestWaitForSlots(t *testing.T) {
	slots := crio.Slots()
	config := func(stores ...string) string {
		list := strings.Join(stores, `", "overlay.imagestore=`)
		return fmt.Sprintf("[crio]\nstorage_option = [\"overlay.imagestore=%s\"]\n", list)
	}
	for name, c := range map[string]struct {
		answer string
		want   error
		text   string
	}{
		"all slots":        {config(append(slots, "/mnt/theirs")...), nil, ""},
		"all but the last": {config(slots[:len(slots)-1]...), crio.ErrWithoutStores, slots[len(slots)-1]},
		"other options":    {"[crio]\nstorage_option = [\"a=b\"]\n", crio.ErrWithoutStores, slots[0]},
		"no answer":        {"", crio.ErrWithoutStores, context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "crio.sock")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked++; asked == 1 || c.answer == "" { // it starts
					w.WriteHeader(http.StatusServiceUnavailable)
					if asked > 1 {
						cancel()
					}
					return
				}
				_, _ = io.WriteString(w, c.answer)
			})}
			go server.Serve(listener)
			t.Cleanup(func() { server.Close() })
			err = crio.WaitForSlots(ctx, "unix://"+socket)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}
