package compose

import (
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"

	"github.com/pinbox/pinbox/storage/squashfs"
)

const fileName = "file"

// PackFile compresses a file to out, in the format that AddPackedFile reads.
func PackFile(compressor *squashfs.Compressor, file io.Reader, out io.Writer) error {
	pack := compressor.NewPacker(out)
	defer pack.Abort()
	content, err := pack.Content(file)
	if err != nil {
		return err
	}
	root := squashfs.NewDir(0o700, 0, 0, 0)
	root.Set(fileName, &squashfs.Inode{Mode: syscall.S_IFREG, Content: content})
	return pack.Close(root, nil)
}

// AddFile adds a file of pinbox to the store, with the folders in its path.
func (s *Store) AddFile(name string, perm uint32, content io.Reader) error {
	dir, base := s.folder(name)
	return s.file(dir, base, perm, content)
}

// AddPackedFile adds a file that PackFile compressed, which is in
// src and has size bytes. The store closes src.
func (s *Store) AddPackedFile(name string, perm uint32, src squashfs.File, size int64) error {
	pack, err := s.compressor.OpenPack(src, size)
	if err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	file := pack.Root.Entry(fileName)
	if file == nil {
		return fmt.Errorf("file %s: %w: it is not the pack of a file", name, squashfs.ErrDamaged)
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
