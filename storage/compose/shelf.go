package compose

import (
	"bytes"
	"os"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// maxShelved is the size of the largest pack of a layer that goes to the shelf, in bytes.
const maxShelved = 64 << 10

// Shelves reports whether a store copies the pack of a layer of so many bytes. A store may have 100,000 small layers,
// which is more than a process has open files.
func Shelves(size int64) bool { return size <= maxShelved }

// shelf keeps small packs in one file without a name: those of 100,000 layers have 200 MB.
type shelf struct {
	tmp  string // a folder for the file
	file *onShelf
	size int64
}

// onShelf is the file. It is no *os.File, so that it is not taken for one that shares blocks with the store.
type onShelf struct{ *os.File }

// add ends a pack that was written to content, and opens it.
func (s *shelf) add(p *squashfs.Packer, content *bytes.Buffer) (*squashfs.Pack, error) {
	pack, err := p.Reopen(inMemory{content})
	if err != nil {
		return nil, err
	}
	return pack, s.take(pack)
}

// take moves a pack to the shelf. The caller closes the file that it was in.
func (s *shelf) take(pack *squashfs.Pack) error {
	if s.file == nil {
		file, err := atomicfile.Unnamed(s.tmp)
		if err != nil {
			return err
		}
		s.file = &onShelf{file}
	}
	size, err := pack.MoveTo(s.file, s.size)
	s.size += size
	return err
}

// close closes the file if no pack was added to an output, which closes it otherwise.
func (s *shelf) close() {
	if s.file != nil {
		_ = s.file.Close() // it is temporary
	}
}

// inMemory is the file of a pack that was just written.
type inMemory struct{ content *bytes.Buffer }

func (m inMemory) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(m.content.Bytes()).ReadAt(p, at)
}

func (inMemory) Close() error { return nil }
