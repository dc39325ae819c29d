package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/squashfs"
)

const fileName = "file"

// ErrChanged is the error of a file that changed while it was read.
var ErrChanged = errors.New("was changed while it was read")

// PackFile compresses a file with a digest to out, in the format that AddPackedFile reads.
func PackFile(compressor *squashfs.Compressor, file io.Reader, want digest.Digest, out io.Writer) error {
	pack := compressor.NewPacker(out)
	defer pack.Abort()
	sum := want.Algorithm().Digester()
	content, err := pack.Content(io.TeeReader(file, sum.Hash()))
	if err != nil {
		return err
	}
	if sum.Digest() != want {
		return ErrChanged
	}
	about, err := json.Marshal(note{Digest: want})
	if err != nil {
		return err
	}
	root := squashfs.NewDir(0o700, 0, 0, 0)
	root.Set(fileName, &squashfs.Inode{Mode: syscall.S_IFREG, Content: content})
	return pack.Close(root, about)
}

// AddFile adds a file of pinbox to the store, with the folders in its path.
func (s *Store) AddFile(name string, perm uint32, content io.Reader) error {
	dir, base := s.folder(name)
	return s.file(dir, base, perm, content)
}

// AddPackedFile adds a file with a digest from its pack, which PackFile wrote to src and which has
// size bytes. The store closes src. A damaged pack, and that of another file, is squashfs.ErrDamaged.
func (s *Store) AddPackedFile(name string, perm uint32, want digest.Digest, src squashfs.File, size int64) error {
	pack, err := s.compressor.OpenPack(src, size)
	if err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	if _, err := readNote(pack, want); err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	file := pack.Root.Entry(fileName)
	if file == nil {
		return fmt.Errorf("file %s: %w", name, pack.Damaged(errors.New("it is not the pack of a file")))
	}
	s.out.AddPack(pack)
	dir, base := s.folder(name)
	dir.Set(base, s.regular(perm, file.Content))
	return nil
}

// folder creates the folders in a path, and returns the last one and the file's name in it.
func (s *Store) folder(name string) (dir *squashfs.Inode, base string) {
	dir = s.root
	folder, base := path.Split(path.Clean(name))
	for part := range strings.SplitSeq(strings.Trim(folder, "/"), "/") {
		if part == "" {
			continue
		}
		next := dir.Entry(part)
		if next == nil {
			next = s.dir(0o755)
			dir.Set(part, next)
		}
		dir = next
	}
	return dir, base
}
