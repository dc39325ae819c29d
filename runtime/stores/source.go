package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/transfer"
)

// What can be wrong with what is to be attached.
var (
	ErrNoSource = errors.New("there is no store of pinbox")
	ErrNoSum    = errors.New("nothing says what its SHA-256 is")
	ErrDamaged  = errors.New("the store is damaged")
)

// Extent is where the bytes of a store are: a file, or a part of one or of a device.
type Extent struct {
	Path string
	// Offset and Size in bytes.
	Offset, Size int64
}

// source is where a store comes from, and what it should be.
type source struct {
	Extent
	id digest.Digest
	// signature that is beside it; nil for none.
	signature []byte
	// medium says that it is on a device, whose name may be another later.
	medium bool
}

// find looks for a store: in a file, a folder, or on a medium. want is its digest, ""
// if what lies beside it tells.
func (k Manager) find(name string, want digest.Digest) (s source, err error) {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return s, fmt.Errorf("%w: %w", ErrNoSource, err)
	case fi.IsDir():
		err = s.in(name, want)
	case isDisc(name):
		s, err = k.disc(name, want)
		s.medium = fi.Mode()&fs.ModeDevice != 0
	case fi.Mode().IsRegular():
		err = s.at(name, want)
	default:
		err = fmt.Errorf("%s: %w: it is no file, no folder, and no device of a medium", name, ErrNoSource)
	}
	return s, err
}

// in looks for a store in a folder: what `pinbox delta` or `pinbox build` made, or a
// medium.
func (s *source) in(dir string, want digest.Digest) error {
	for _, folder := range []string{dir, filepath.Join(dir, "pinbox")} {
		for _, name := range []string{"delta.squashfs", "store.squashfs"} {
			file := filepath.Join(folder, name)
			if _, err := os.Stat(file); err == nil {
				return s.at(file, want)
			}
		}
	}
	return fmt.Errorf("%s: %w", dir, ErrNoSource)
}

// at takes a file, and finds out what its sum should be.
func (s *source) at(file string, want digest.Digest) (err error) {
	file, err = filepath.Abs(file)
	if err != nil {
		return err
	}
	fi, err := os.Stat(file)
	if err != nil {
		return err
	}
	s.Extent, s.id = Extent{Path: file, Size: fi.Size()}, want
	if err := s.readSignature(file); err != nil {
		return err
	}
	for _, name := range []string{"SHA256SUMS", "sums.txt"} {
		if s.id != "" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.id = SumOf(text, filepath.Base(file))
	}
	if s.id == "" {
		return fmt.Errorf("%s: %w", file, ErrNoSum)
	}
	return nil
}

// readSignature reads the signature beside a file.
func (s *source) readSignature(file string) error {
	for _, name := range signatures(file) {
		fi, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && fi.Size() > maxSignature {
			err = fmt.Errorf("%s: %w: it has %d bytes", name, ErrSignature, fi.Size())
		}
		if err == nil {
			s.signature, err = os.ReadFile(name)
		}
		return err
	}
	return nil
}

// SumOf finds the sum of a file in what sha256sum(1) says, "" if it is not there.
func SumOf(text []byte, name string) digest.Digest {
	for line := range strings.Lines(string(text)) {
		sum, of, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if id := digest.NewDigestFromEncoded(digest.SHA256, sum); of == name && id.Validate() == nil {
			return id
		}
	}
	return ""
}

// copier reads a store, and finds out whether it is what it should be.
type copier struct {
	ctx  context.Context
	want digest.Digest
	// judge of its signature; nil for none.
	judge *judge
	done  func(done, all int64)
}

// copy copies a store. A nil to only reads.
func (c copier) copy(to io.Writer, e Extent) error {
	f, err := os.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), e.Offset, e.Size, unix.FADV_SEQUENTIAL)
	outs := []io.Writer{}
	if to != nil {
		outs = append(outs, to)
	}
	if c.judge != nil {
		outs = append(outs, c.judge)
	}
	in, want := io.NewSectionReader(f, e.Offset, e.Size), transfer.Content{Size: e.Size, Digest: c.want}
	err = transfer.Copy(c.ctx, io.MultiWriter(outs...), in, want, func(bytes int64) {
		if c.done != nil {
			c.done(bytes, e.Size)
		}
	})
	if errors.Is(err, transfer.ErrRead) || errors.Is(err, transfer.ErrDigest) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	return c.judge.end()
}
