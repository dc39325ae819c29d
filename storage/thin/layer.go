package thin

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// layerReader puts a tar stream together.
type layerReader struct {
	ctx    context.Context
	x      *index
	recipe *recipe
	bases  *bases
	blocks blockReader
	packed *squashfs.BlockCache // nil for none

	gaps, refs decoder
	done       int64 // contents whose gaps were read
	next       int64 // number of the next content that is new
	due        bool  // the content comes after the gap that was read
	skeleton   part  // what is left of it

	// What is read: a file of a base, or rest and then part.
	file *baseFile
	rest []byte
	part part

	sum  hash.Hash
	size int64
	tail []byte // the last bytes of the gap, which name the file that follows
	err  error
}

// part is a part of a solid stream.
type part struct {
	kind    int
	at, end int64
}

// baseFile is an open file of a base.
type baseFile struct {
	fs.File
	layer  *baseLayer
	record record
	left   int64 // bytes
}

// maxTail is enough for the headers of a file with a name of some kB.
const maxTail = 8 << 10

// Read implements io.Reader.
func (l *layerReader) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.fill(p)
	l.sum.Write(p[:n])
	if l.size += int64(n); l.size > l.recipe.size {
		err = damaged("its tar stream has more than %d bytes", l.recipe.size)
	}
	if err == io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
		err = l.verify()
	}
	if ended := l.ctx.Err(); ended != nil && err != nil { // no store is damaged
		err = ended
	}
	if err != nil && err != io.EOF { //nolint:errorlint // as above
		err = broken{fmt.Errorf("layer %s: %w", l.recipe.diffID, l.at(err))}
	}
	l.err = err
	return n, err
}

// broken is an error that is not io.EOF, even if it wraps it: an image that was cut short is not the end of
// the stream.
type broken struct{ error }

func (b broken) As(target any) bool { return errors.As(b.error, target) }

func (b broken) Is(target error) bool {
	return target != io.EOF && errors.Is(b.error, target) //nolint:errorlint // io.EOF itself
}

// Close implements io.Closer.
func (l *layerReader) Close() error {
	l.closeFile()
	l.blocks.dec.Close()
	l.bases.close()
	l.err = fs.ErrClosed
	return nil
}

func (l *layerReader) closeFile() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// fill reads some bytes. At the end of the stream it returns io.EOF.
func (l *layerReader) fill(p []byte) (int, error) {
	for len(p) > 0 {
		switch {
		case l.ctx.Err() != nil:
			return 0, l.ctx.Err()
		case l.file != nil:
			return l.readFile(p)
		case len(l.rest) > 0:
			n := copy(p, l.rest)
			l.rest = l.rest[n:]
			return n, nil
		}
		if err := l.advance(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (l *layerReader) readFile(p []byte) (int, error) {
	n, err := l.file.Read(p[:min(int64(len(p)), l.file.left)])
	if err != nil && !errors.Is(err, io.EOF) {
		return n, l.file.layer.damaged(l.file.record.name, err)
	}
	if l.file.left -= int64(n); l.file.left > 0 && err != nil {
		return n, l.file.layer.damaged(l.file.record.name, io.ErrUnexpectedEOF)
	}
	if l.file.left == 0 {
		l.closeFile()
	}
	return n, nil
}

// advance goes to what comes next: the rest of a part, a content after its gap, a gap, or the end of the
// skeleton.
func (l *layerReader) advance() (err error) {
	switch {
	case l.part.at < l.part.end:
		l.rest, err = l.blocks.read(l.part.kind, l.part.at, l.part.end)
		l.part.at += int64(len(l.rest))
		if l.part.kind == skeletons {
			l.tail = append(l.tail, l.rest...)
			l.tail = l.tail[max(len(l.tail)-maxTail, 0):]
		}
		return err
	case l.due:
		l.due = false
		return l.content()
	case l.done < l.recipe.contents:
		l.done++
		l.due = true
		l.tail = l.tail[:0]
		gap := l.gaps.number("gap", l.skeleton.end-l.skeleton.at)
		l.part = part{skeletons, l.skeleton.at, l.skeleton.at + gap}
		l.skeleton.at += gap
		return nil
	case l.skeleton.at < l.skeleton.end:
		l.tail = l.tail[:0]
		l.part, l.skeleton.at = l.skeleton, l.skeleton.end
		return nil
	}
	return io.EOF
}

// content goes to the next content.
func (l *layerReader) content() error {
	number := l.next
	if back := l.refs.number("content", l.next); back > 0 {
		number -= back
	} else {
		l.next++
	}
	kind, of, row := l.x.content(number)
	if kind != same {
		l.part.kind = kind
		l.part.at, l.part.end = l.x.solid[kind].extent(row)
		return nil
	}
	layer, err := l.bases.layer(l.x.layers[of.layer])
	if err != nil {
		return err
	}
	f, r, err := layer.open(of.file)
	if err != nil {
		return err
	}
	if l.packed != nil && l.x.packed[of.layer] {
		l.packed.Fill(f)
	}
	l.file = &baseFile{File: f, layer: layer, record: r, left: r.size}
	return nil
}

// verify compares what was read to the end with the DiffID.
func (l *layerReader) verify() error {
	got := digest.NewDigest(digest.SHA256, l.sum)
	if got == l.recipe.diffID && l.size == l.recipe.size {
		return io.EOF
	}
	l.tail = nil // it is not the last file that is wrong
	if err := l.diagnose(); err != nil {
		return err
	}
	return damaged("the tar stream has %d bytes and SHA-256 %s, want %d", l.size, got.Encoded(), l.recipe.size)
}

// diagnose returns the error of the first content of a base that is not what it was.
func (l *layerReader) diagnose() error {
	seen := map[source]bool{}
	check := func(of source) error {
		if seen[of] {
			return nil
		}
		seen[of] = true
		if err := l.ctx.Err(); err != nil {
			return err
		}
		return l.bases.check(l.x.layers[of.layer], of.file)
	}
	return l.x.sources(l.recipe, check)
}

// sources calls f with each content of a base of which a recipe needs bytes, some of them several times.
func (x *index) sources(r *recipe, f func(source) error) error {
	blocks := func(kind, row int) error {
		s := &x.solid[kind]
		at, end := s.extent(row)
		for n := s.find(at); n >= 0 && n < len(s.blocks) && s.blocks[n].start < end; n++ {
			for _, sp := range x.spans[s.blocks[n].first:][:s.blocks[n].spans] {
				if err := f(sp.source); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := blocks(skeletons, r.row); err != nil {
		return err
	}
	next, refs := r.first, decoder{rest: r.refs}
	for range r.contents {
		number := next
		if back := refs.number("content", next); back > 0 {
			number -= back
		} else {
			next++
		}
		kind, of, row := x.content(number)
		if kind == same {
			if err := f(of); err != nil {
				return err
			}
			continue
		}
		if err := blocks(kind, row); err != nil {
			return err
		}
	}
	return nil
}

// at adds the path of the file to an error that does not have it.
func (l *layerReader) at(err error) error {
	name := l.name()
	var base *BaseError
	if name == "" || errors.As(err, &base) || l.ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%q: %w", name, err)
}

// name returns the path of the file whose content is read, "" if it is unknown.
func (l *layerReader) name() (name string) {
	for at := len(l.tail) % 512; at < len(l.tail); at += 512 { // a gap begins with the end of a block
		headers := tar.NewReader(bytes.NewReader(l.tail[at:]))
		for {
			h, err := headers.Next()
			if err != nil {
				break
			}
			name = h.Name
		}
		if name != "" {
			return name
		}
	}
	return ""
}
