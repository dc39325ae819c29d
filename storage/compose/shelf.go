package compose

import (
	"bytes"
	"io"
	"os"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// shelf keeps small packs in one file without a name, which is closed with the last of them: those of 100,000 layers
// have 200 MB.
type shelf struct {
	tmp  string // a folder for the file
	file *os.File
	size int64
	open int // packs
}

// add ends a pack that was written to content, and opens it.
func (s *shelf) add(p *squashfs.Packer, content *bytes.Buffer) (*squashfs.Pack, error) {
	if s.file == nil {
		file, err := atomicfile.Unnamed(s.tmp)
		if err != nil {
			return nil, err
		}
		s.file, s.size = file, 0
	}
	own := &shelved{shelf: s}
	pack, err := p.Reopen(own)
	if err != nil {
		return nil, err
	}
	if _, err := s.file.WriteAt(content.Bytes(), s.size); err != nil {
		return nil, err
	}
	own.SectionReader = io.NewSectionReader(s.file, s.size, int64(content.Len()))
	s.size += int64(content.Len())
	s.open++
	return pack, nil
}

// shelved is the file of one pack.
type shelved struct {
	*io.SectionReader
	shelf  *shelf
	closed bool
}

// Close closes the file of all packs if no other is open. A second call does nothing.
func (s *shelved) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.shelf.open--; s.shelf.open > 0 {
		return nil
	}
	file := s.shelf.file
	s.shelf.file = nil
	return file.Close()
}
