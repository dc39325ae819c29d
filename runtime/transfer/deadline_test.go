package transfer_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/runtime/transfer"
)

// hanging is a device that answers until an offset, and then not before the test ends.
type hanging struct {
	io.ReaderAt
	until int64
	end   chan struct{}
}

func (h hanging) ReadAt(p []byte, offset int64) (int, error) {
	if offset >= h.until {
		<-h.end
	}
	return h.ReaderAt.ReadAt(p, offset)
}

// A device that stops to answer ends a copy, after the bytes that it gave before.
func TestDeviceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := bytes.Repeat([]byte("pinbox"), 2<<20)
		device := hanging{bytes.NewReader(content), 8 << 20, make(chan struct{})}
		defer close(device.end)
		size := int64(len(content))
		from := transfer.WithDeadline(device, time.Second)
		var to bytes.Buffer
		_, err := transfer.Copy(t.Context(), &to, io.NewSectionReader(from, 0, size), transfer.Content{Size: size}, nil)
		if !errors.Is(err, transfer.ErrDevice) || !errors.Is(err, transfer.ErrRead) {
			t.Errorf("got %v, want ErrDevice", err)
		}
		if !bytes.Equal(to.Bytes(), content[:8<<20]) {
			t.Errorf("got %d bytes before, want the first 8 MiB", to.Len())
		}
		if _, err := from.ReadAt(make([]byte, 1), 0); !errors.Is(err, transfer.ErrDevice) {
			t.Errorf("afterwards: got %v, want ErrDevice at once", err)
		}
	})
}

// Reads within the limit are those of the device.
func TestDeviceThatAnswers(t *testing.T) {
	content := bytes.Repeat([]byte("pinbox"), 1<<20)
	from := transfer.WithDeadline(bytes.NewReader(content), time.Minute)
	got, err := io.ReadAll(io.NewSectionReader(from, 0, int64(len(content))))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("got %d bytes, %v, want those of the device", len(got), err)
	}
	if n, err := from.ReadAt(make([]byte, 10), int64(len(content))-4); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: got %d bytes, %v, want 4 and EOF", n, err)
	}
}
