package fanout_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/pinbox/pinbox/storage/fanout"
)

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestWriter(t *testing.T) {
	fault, other := errors.New("fault"), errors.New("another")
	fails := func(err error) writer { return func([]byte) (int, error) { return 0, err } }
	short := writer(func(p []byte) (int, error) { return len(p) - 1, nil })
	var first, second bytes.Buffer
	for name, c := range map[string]struct {
		to   io.Writer
		n    int
		want error
	}{
		"all take it":            {fanout.Writer(&first, &second), 6, nil},
		"the first fails":        {fanout.Writer(fails(fault), &second), 0, fault},
		"another fails":          {fanout.Writer(&first, &second, fails(fault)), 6, fault},
		"two fail":               {fanout.Writer(fails(fault), fails(other)), 0, fault},
		"the first takes less":   {fanout.Writer(short, &second), 5, io.ErrShortWrite},
		"another one takes less": {fanout.Writer(&first, short), 6, io.ErrShortWrite},
	} {
		t.Run(name, func(t *testing.T) {
			first.Reset()
			second.Reset()
			if n, err := c.to.Write([]byte("pinbox")); n != c.n || !errors.Is(err, c.want) {
				t.Errorf("got %d, %v, want %d bytes and %v", n, err, c.n, c.want)
			}
			if c.want == nil && first.String()+second.String() != "pinboxpinbox" {
				t.Errorf("got %q and %q, want both to have all", first.String(), second.String())
			}
		})
	}
}

// Each of two writers waits for the other one.
func TestWritesAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if all wait
		meet := make(chan bool)
		waits := writer(func(p []byte) (int, error) {
			select {
			case meet <- true:
			case <-meet:
			}
			return len(p), nil
		})
		if _, err := fanout.Writer(waits, waits).Write([]byte("pinbox")); err != nil {
			t.Errorf("got %v, want both to write at the same time", err)
		}
	})
}
