package compose

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"strings"
)

// follow copies a tar stream to w, which unpacks it, and counts its entries. An entry that exceeds
// the budget is an error before w has all of its header.
func (b *budget) follow(stream io.Reader, w io.Writer) error {
	late := &lateWriter{w: w}
	copied := io.TeeReader(stream, late)
	seen := &folders{b: b, seed: maphash.MakeSeed(), known: map[uint64]bool{}}
	for tr := tar.NewReader(copied); ; {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		err = b.entry(hdr)
		if err == nil {
			err = seen.add(hdr.Name)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", hdr.Name, err)
		}
		if err := late.flush(); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, copied); err != nil {
		return err
	}
	return late.flush()
}

// lateWriter keeps the last bytes that were written, until more are. archive/tar reads a header in
// blocks, and nothing behind it.
type lateWriter struct {
	w    io.Writer
	held []byte
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if err := l.flush(); err != nil {
		return 0, err
	}
	l.held = append(l.held, p...)
	return len(p), nil
}

func (l *lateWriter) flush() error {
	_, err := l.w.Write(l.held)
	l.held = l.held[:0]
	return err
}

// folders counts the folders that have no entry, by the hashes of their names.
type folders struct {
	b     *budget
	seed  maphash.Seed
	known map[uint64]bool
}

func (f *folders) add(name string) error {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if err := f.b.step(1); err != nil {
			return err
		}
		sum := maphash.String(f.seed, dir)
		if f.known[sum] {
			return nil
		}
		f.known[sum] = true
		if err := f.b.name(0); err != nil {
			return err
		}
	}
	return nil
}
