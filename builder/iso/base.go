package iso

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Base is a live ISO that others are made of. A build opens it once, so that all of it comes from one file.
type Base struct {
	// Name is the path that it was opened by, and Size is in bytes.
	Name string
	Size int64
	// Edited reports that it is an ISO of pinbox, of which all here is as it was before that was made.
	Edited bool

	image *Image
	file  *os.File
	back  []patch // what the edit before has changed
}

// OpenBase opens a base; of an ISO of pinbox, the one that it was made of. The caller closes it.
func OpenBase(name string) (*Base, error) {
	image, f, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd) // Stat gives no size of a device
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	before, err := image.pristine()
	if errors.Is(err, ErrNotEdited) {
		return &Base{Name: name, Size: size, image: image, file: f}, nil
	}
	if err == nil {
		image, err = Open(overlay{f, before.patches}, before.size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &Base{Name: name, Size: before.size, Edited: true, image: image, file: f, back: before.patches}, nil
}

// Close closes the file. nil is fine: a build without an ISO has no base.
func (b *Base) Close() error {
	if b == nil {
		return nil
	}
	return b.file.Close()
}

// Reader reads the whole base.
func (b *Base) Reader() io.Reader { return io.NewSectionReader(overlay{b.file, b.back}, 0, b.Size) }

// Ignition returns the Ignition config that it has; nil if it has none.
func (b *Base) Ignition() ([]byte, error) {
	config, err := b.image.Ignition()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	return config, nil
}

// DiskNotes are those of its image.
func (b *Base) DiskNotes() ([]string, error) {
	notes, err := b.image.DiskNotes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	return notes, nil
}

// Check reports whether an edit can be applied, without the content of the additions.
func (b *Base) Check(e Edit) error {
	if _, err := (editor{b.image}).edit(e); err != nil {
		return fmt.Errorf("%s: %w", b.Name, err)
	}
	return nil
}

// Apply writes an edited copy to out, which appears when it is complete.
func (b *Base) Apply(ctx context.Context, out string, e Edit) error {
	fi, err := b.file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(out); err == nil && os.SameFile(fi, there) {
		return fmt.Errorf("%s: %w", out, ErrSameFile)
	}
	l, err := editor{b.image}.edit(e)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Name, err)
	}
	perm := os.FileMode(0o644)
	if e.Private {
		perm = 0o600
	}
	l.patches = append(slices.Clone(b.back), l.patches...)
	return write(ctx, b.file, b.Size, out, perm, l, e.Written)
}

// CheckInstaller checks that the live system can install unattended. network reports whether it has keyfiles for the
// network.
func (b *Base) CheckInstaller() (network bool, err error) {
	members, err := b.image.Members()
	if err != nil {
		return false, fmt.Errorf("%s: %w", b.Name, err)
	}
	_, installer, err := b.image.features()
	if err == nil && !installer {
		err = ErrNoInstaller
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", b.Name, err)
	}
	for _, m := range members {
		network = network || strings.HasPrefix(m.Name, networkDir)
	}
	return network, nil
}
