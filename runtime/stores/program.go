package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrProgram means that the pinbox-node in a store cannot be used.
var ErrProgram = fault.New(fault.Damaged, "the pinbox-node in the store cannot be used",
	"build it again with the pinbox-node for this node's architecture; `pinbox verify` checks the original")

// maxProgram is the size of the largest program that is copied, in bytes. A program has 23 MB.
const maxProgram = 256 << 20

// programs keeps the programs of the releases, and names the one of the current release for the units, which
// install it before they next start. No process runs them from here.
type programs struct {
	dir string
	// own is the program of the appliance's own store; zero if units do not install that, and then they install none.
	own pinset.Program
}

func (p programs) file(sum digest.Digest) string { return filepath.Join(p.dir, sum.Encoded()) }
func (p programs) current() string               { return filepath.Join(p.dir, layout.CurrentProgram) }

// take returns the program that the next release has, nil for that of the appliance's own store, and copies it out of
// the release's store if it is new. It is that of the current release if the store has none or, without force, one of
// a lower version.
func (p programs) take(
	ctx context.Context, s State, store fs.FS, lock pinset.Lock, o AttachOptions,
) (*pinset.Program, error) {
	now, before, next := p.wanted(s), p.named(s), lock.Program
	switch {
	case p.own.Digest == "", next == nil, next.Digest == before.Digest:
		return now, nil
	case next.OlderThan(before) && (!o.Force || o.Auto):
		return now, nil
	case next.Digest == p.own.Digest, next.OlderThan(p.own):
		return nil, nil
	}
	if o.dry {
		return next, nil
	}
	err := p.copy(ctx, store, *next, o.fits)
	if errors.Is(err, fs.ErrNotExist) { // its bases have it, and this node took another one
		return now, nil
	}
	return next, err
}

// wanted returns the program of the current release; nil for that of the appliance's own store. The configuration of
// the node names that one, and may have moved on itself: an older one does not replace it.
func (p programs) wanted(s State) *pinset.Program {
	current := s.release(s.Current)
	if p.own.Digest == "" || current == nil || current.Program == nil || current.Program.OlderThan(p.own) {
		return nil
	}
	return current.Program
}

// named returns the program that the units install.
func (p programs) named(s State) pinset.Program {
	if wanted := p.wanted(s); wanted != nil {
		return *wanted
	}
	return p.own
}

// CurrentProgram returns the pinbox-node of the current release, which the units install; zero if they install none.
func (m Manager) CurrentProgram() (pinset.Program, error) {
	s, err := readState(m)
	return m.tools().programs.named(s), err
}

// readState is [ReadState]. If a newer program wrote the state, the error names that program.
func readState(m Manager) (State, error) {
	s, err := ReadState(m.Dir)
	if !errors.Is(err, pinset.ErrNewer) {
		return s, err
	}
	if later := m.tools().programs.latest(); later != "" {
		err = fmt.Errorf("%w; `%s attach` attaches the store of the later release again", err, later)
	}
	return s, err
}

// latest returns the path of the program that was copied last, other than that of the current release; "" if there
// is none.
func (p programs) latest() (path string) {
	current, _ := os.ReadFile(p.current()) // none if that of the appliance's own store is the current one
	entries, _ := os.ReadDir(p.dir)
	var last time.Time
	for _, e := range entries {
		fi, err := e.Info()
		isProgram := digest.NewDigestFromEncoded(digest.SHA256, e.Name()).Validate() == nil
		if err == nil && isProgram && e.Name() != strings.TrimSpace(string(current)) && fi.ModTime().After(last) {
			path, last = filepath.Join(p.dir, e.Name()), fi.ModTime()
		}
	}
	return path
}

// repair copies the program of an attached release again if its copy is damaged, and the release's store has it.
func (p programs) repair(ctx context.Context, r Release, store fs.FS, o AttachOptions) error {
	if p.own.Digest == "" || r.Program == nil || o.dry {
		return nil
	}
	return fault.Ignore(p.copy(ctx, store, *r.Program, o.fits), fs.ErrNotExist)
}

// copy copies a program out of a store, unless it is here already. Without one in the store, the error is
// fs.ErrNotExist.
func (p programs) copy(ctx context.Context, store fs.FS, want pinset.Program, fits func(int64) error) error {
	if p.has(want.Digest) {
		return nil
	}
	in, err := store.Open(layout.OwnProgram)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() > maxProgram) {
		err = fmt.Errorf("%w: %s is not a file of at most %d MiB", ErrProgram, layout.OwnProgram, maxProgram>>20)
	}
	if err == nil {
		err = fits(fi.Size())
	}
	if err == nil {
		err = os.MkdirAll(p.dir, 0o700)
	}
	if err != nil {
		return err
	}
	out, err := atomicfile.Create(p.file(want.Digest), 0o700)
	if err != nil {
		return err
	}
	defer out.Abort()
	head := &header{}
	content := transfer.Content{Size: fi.Size(), Digest: want.Digest}
	if _, err := transfer.Copy(ctx, io.MultiWriter(out, head), in, content, func(int64) {}); err != nil {
		return fmt.Errorf("%w: %w", ErrProgram, err)
	}
	if err := head.check(); err != nil {
		return err
	}
	return out.Commit()
}

// has reports whether a program is here and intact.
func (p programs) has(sum digest.Digest) bool {
	f, err := os.Open(p.file(sum))
	if err != nil {
		return false
	}
	defer f.Close()
	got, err := digest.FromReader(f)
	return err == nil && got == sum
}

// settle names the program of the current release for the units, and removes the programs of releases that the node
// does not keep.
func (p programs) settle(s State) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fault.Ignore(err, fs.ErrNotExist)
	}
	known := map[string]bool{}
	for _, r := range s.Releases {
		if r.Program != nil {
			known[r.Program.Digest.Encoded()] = true
		}
	}
	if wanted := p.wanted(s); wanted != nil {
		known[layout.CurrentProgram] = true
		text := wanted.Digest.Encoded() + "\n"
		if _, err := atomicfile.Write(p.current(), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if !known[e.Name()] && !e.IsDir() {
			// The temporary file that a killed process has left became that of the name.
			err = errors.Join(err, fault.Ignore(os.Remove(filepath.Join(p.dir, e.Name())), fs.ErrNotExist))
		}
	}
	return err
}

// header is the start of an ELF file.
type header struct{ bytes.Buffer }

// machineEnd is the end of e_machine, of which the order of bytes depends on e_ident: elf(5).
const machineEnd = 20

// Write keeps the first bytes.
func (h *header) Write(b []byte) (int, error) {
	_, _ = h.Buffer.Write(b[:min(len(b), machineEnd-h.Len())]) // a buffer returns no errors
	return len(b), nil
}

// check returns an ErrProgram unless the header is of a program for the machine of this process: before the first
// bad one is installed, since it could not install a good one any more.
func (h *header) check() error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	own := make([]byte, machineEnd)
	if _, err := io.ReadFull(self, own); err != nil {
		return err
	}
	got := h.Bytes()
	// Magic number, class and byte order; then, after the type, the machine.
	if len(got) < machineEnd || !bytes.Equal(got[:6], own[:6]) || !bytes.Equal(got[18:], own[18:]) {
		return fmt.Errorf("%w: it is no program for this machine", ErrProgram)
	}
	return nil
}
