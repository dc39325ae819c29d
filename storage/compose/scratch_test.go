package compose

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"
)

// What is written to a scratch is read again, whether it is in memory or in a file, and it can be used again.
func TestScratch(t *testing.T) {
	s := &scratch{tmp: t.TempDir()}
	for _, test := range []struct {
		parts  []int // bytes
		inFile bool
	}{
		{nil, false},
		{[]int{10, scratchSize - 10}, false},
		{[]int{scratchSize, 1, 5}, true},
		{[]int{10}, false},
		{[]int{3 * scratchSize}, true},
	} {
		var want []byte
		for i, n := range test.parts {
			part := bytes.Repeat([]byte{byte(1 + i)}, n)
			want = append(want, part...)
			if n, err := s.Write(part); n != len(part) || err != nil {
				t.Fatalf("%v: got %d, %v", test.parts, n, err)
			}
		}
		if got := s.file != nil; got != test.inFile {
			t.Errorf("%v: got a file %v, want %v", test.parts, got, test.inFile)
		}
		r, err := s.content()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: got %d bytes, %v, want %d", test.parts, len(got), err, len(want))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestScratchWithoutItsFolder(t *testing.T) {
	s := &scratch{tmp: filepath.Join(t.TempDir(), "absent")}
	if _, err := s.Write(make([]byte, scratchSize)); err != nil {
		t.Errorf("a small one: got %v", err)
	}
	if _, err := s.Write([]byte{1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a large one: got %v, want %v", err, fs.ErrNotExist)
	}
}
