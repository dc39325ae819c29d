package stores

import (
	"errors"
	"fmt"
	"io"
	"os"
	goruntime "runtime"

	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/verity"
)

// Probe returns why Attach would refuse a store, as far as that is known before all its bytes are read. It changes
// nothing, and works on a machine that is no node yet. A store in parts is only found, and so is any store if there are
// keys: nothing of it is parsed before its signature is verified.
func (m Manager) Probe(source string) error {
	state, err := readState(m)
	if err != nil {
		return err
	}
	if namesRelease(source) {
		_, err := state.nameOf(source)
		return err
	}
	src, err := m.tools().sources.find(source, "")
	if err != nil {
		return err
	}
	if err := src.checkSignature(""); err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	if src.parts || !src.keys.IsEmpty() || state.known(src.id) != nil { // what is attached is not read again
		return nil
	}
	f, err := open(src.Path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	image := io.NewSectionReader(transfer.WithDeadline(f, transfer.ReadDeadline), src.Offset, src.Size)
	if _, err := Probe(image, src.Size); err != nil {
		return fmt.Errorf("%s: %w", src.Path, err)
	}
	return nil
}

// Probe returns the lock of a store, and why no node of this architecture can attach the store, as far as that is known
// before all its bytes are read. size is that of its file, in bytes.
func Probe(image io.ReaderAt, size int64) (pinset.Lock, error) {
	files, err := squashfs.OpenImage(image, size)
	if err == nil {
		err = checkTreeSize(image, files.Size(), size)
	}
	if err != nil {
		return pinset.Lock{}, fault.Wrap(ErrDamaged, err)
	}
	c, err := readContent(files)
	if err == nil {
		err = checkPlatform(c.Lock.Platform)
	}
	return c.Lock, err
}

// checkTreeSize returns an error if a hash tree begins behind so many bytes of data, and the file ends before it does.
func checkTreeSize(image io.ReaderAt, data, size int64) error {
	data = (data + verity.BlockSize - 1) / verity.BlockSize * verity.BlockSize
	head := make([]byte, verity.BlockSize)
	if _, err := image.ReadAt(head, data); err != nil && !errors.Is(err, io.EOF) { // it may end in the superblock
		return err
	}
	blocks, err := verity.ParseSuperblock(head)
	if want := verity.Size(data); err == nil && blocks*verity.BlockSize == data && size != want {
		return fmt.Errorf("%d bytes of %d", size, want)
	}
	return nil
}

// checkPlatform returns ErrPlatform for a store whose programs do not run on this machine.
func checkPlatform(p pinset.Platform) error {
	if _, arch, _ := p.Split(); arch != goruntime.GOARCH {
		return fmt.Errorf("%w: %s", ErrPlatform, p)
	}
	return nil
}
