package stores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// What can be wrong with what is to be attached.
var (
	ErrNoSource = errors.New("there is no store of pinbox")
	ErrNoSum    = errors.New("nothing says what its SHA-256 is")
	ErrDamaged  = errors.New("the store is damaged")
)

// source is where a store comes from.
type source struct {
	// file of the store, and what it should be.
	file string
	id   digest.Digest
	// root of the medium that it is on, "" for none.
	root string
	end  func() error
}

// place is what the state says of the file, if the store is used where it is.
func (s source) place() (path string, medium bool, err error) {
	if s.root == "" {
		path, err = filepath.Abs(s.file)
		return path, false, err
	}
	path, err = filepath.Rel(s.root, s.file)
	return path, true, err
}

// find looks for a store: in a file, a folder, or on a medium. want is its digest, ""
// if what lies beside it tells. The caller calls end.
func (k Keeper) find(ctx context.Context, name string, want digest.Digest) (s source, err error) {
	fi, err := os.Stat(name)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrNoSource, err)
	}
	s.end = func() error { return nil }
	switch {
	case fi.Mode()&fs.ModeDevice != 0 && fi.Mode()&fs.ModeCharDevice == 0:
		s.root = filepath.Join(k.Media, "attach")
		if err := mountMedium(ctx, name, s.root); err != nil {
			return s, err
		}
		s.end = func() error { return unmountAll(context.WithoutCancel(ctx), Direct{}, s.root) }
		err = s.in(s.root, want)
	case fi.IsDir():
		err = s.in(name, want)
	case fi.Mode().IsRegular():
		err = s.at(name, want)
	default:
		err = fmt.Errorf("%s: %w: it is no file, folder or device", name, ErrNoSource)
	}
	if err != nil {
		return s, errors.Join(err, s.end())
	}
	return s, nil
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
func (s *source) at(file string, want digest.Digest) error {
	s.file, s.id = file, want
	if want != "" {
		return nil
	}
	for _, name := range []string{"SHA256SUMS", "sums.txt"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			sum, of, _ := strings.Cut(strings.TrimSpace(line), "  ")
			if id := digest.NewDigestFromEncoded(digest.SHA256, sum); of == filepath.Base(file) && id.Validate() == nil {
				s.id = id
				return nil
			}
		}
	}
	return fmt.Errorf("%s: %w", file, ErrNoSum)
}

// mountMedium mounts a CD, or a USB disk that holds one's image.
func mountMedium(ctx context.Context, device, where string) error {
	if err := unmountAll(ctx, Direct{}, where); err != nil { // a run that was killed has left it
		return err
	}
	if err := os.MkdirAll(where, 0o700); err != nil {
		return err
	}
	if err := run(ctx, "mount", "-t", "iso9660", "-o", "ro,nosuid,nodev,noexec", device, where); err != nil {
		return fmt.Errorf("%s: %w: %w", device, ErrNoSource, err)
	}
	return nil
}

// copier reads a store's file.
type copier struct {
	ctx  context.Context
	done func(done, all int64)
}

// copy gives the digest of what it read. A nil to only reads.
func (c copier) copy(to io.Writer, file string) (id digest.Digest, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	// A medium is read once: what it holds need not stay in memory.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)
	sum := sha256.New()
	for buffer := make([]byte, 4<<20); ; {
		if err := c.ctx.Err(); err != nil {
			return "", 0, err
		}
		n, err := f.Read(buffer)
		if errors.Is(err, io.EOF) {
			return digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum.Sum(nil))), size, nil
		}
		if err != nil {
			return "", 0, fmt.Errorf("%w: after %d of %d bytes: %w", ErrDamaged, size, fi.Size(), err)
		}
		sum.Write(buffer[:n])
		if to != nil {
			if _, err := to.Write(buffer[:n]); err != nil {
				return "", 0, err
			}
		}
		size += int64(n)
		if c.done != nil {
			c.done(size, fi.Size())
		}
	}
}
