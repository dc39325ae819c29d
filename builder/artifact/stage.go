package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/pullpolicy"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
)

// Errors of the output folder.
var (
	ErrNotEmpty = fault.New(fault.Usage, "output folder is not empty",
		"choose another folder with -o, or remove this one")
	ErrNotFolder = fault.New(fault.Usage, "output is not a folder",
		"choose another folder with -o")
	ErrNotReplaceable = fault.New(fault.Usage, "output folder cannot be replaced",
		"name a folder below it with -o")
	ErrBusy = fault.New(fault.Usage, "another build uses the folder",
		"wait for the other build; or remove its partial folder, or choose another folder with -o")
)

// Stage is the folder in which an appliance is written: ".OUT.pinbox-partial" in the parent of the output
// folder. Publish renames it. If a build is killed the stage remains, and the next build empties it.
type Stage struct {
	Dir, out  string
	lock      *os.File
	published bool
	signing   signing
}

// OpenStage makes and locks the stage of the output folder. The caller calls Discard in any case.
func OpenStage(out string) (_ *Stage, err error) {
	if out, err = checkOutput(out); err != nil {
		return nil, err
	}
	s := &Stage{Dir: filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".pinbox-partial"), out: out}
	if err := os.MkdirAll(filepath.Dir(s.Dir), 0o755); err != nil {
		return nil, err
	}
	for s.lock == nil {
		if s.lock, err = lockFolder(s.Dir); err != nil {
			return nil, err
		}
	}
	return s, s.clear()
}

// lockFolder makes and locks a folder. It returns nil if another process has renamed or removed the folder
// in the meantime.
func lockFolder(dir string) (_ *os.File, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// The folder will be emptied: it must not be a link to another one.
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := filelock.Try(f); errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", dir, ErrBusy)
	} else if err != nil {
		return nil, err
	}
	locked, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if there, err := os.Lstat(dir); err != nil || !os.SameFile(locked, there) {
		return nil, f.Close()
	}
	if int(locked.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s: %w: it belongs to another user", dir, ErrBusy)
	}
	return f, nil
}

// checkOutput reports why the stage cannot be renamed to out, before any work is done. It returns the
// absolute path without symbolic links.
func checkOutput(out string) (string, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(out); errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	target, err := filepath.EvalSymlinks(out)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotFolder, err)
	}
	entries, err := os.ReadDir(target)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotFolder, err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s: %w", target, ErrNotEmpty)
	}
	if mounted, err := mountPoint(target); err != nil {
		return "", err
	} else if mounted {
		return "", fmt.Errorf("%s: %w: it is a mount point", target, ErrNotReplaceable)
	}
	if here, err := filepath.EvalSymlinks("."); err == nil {
		if here, err = filepath.Abs(here); err == nil && here == target {
			return "", fmt.Errorf("%s: %w: it is the current folder", target, ErrNotReplaceable)
		}
	}
	return target, nil
}

// clear removes the files of a build that was killed.
func (s *Stage) clear() error {
	entries, err := os.ReadDir(s.Dir)
	if len(entries) > 0 {
		err = errors.Join(err, root.Unmount(s.Dir))
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir, e.Name())))
	}
	return err
}

// Path returns the path of a file in the stage.
func (s *Stage) Path(name string) string { return filepath.Join(s.Dir, filepath.FromSlash(name)) }

// Text is a small file.
type Text struct {
	Content []byte
	Perm    os.FileMode
}

// WriteTexts writes the lock, the sets into a folder, the policies for pods, the allowlist of the kubelet, the root
// hash of the store, and more files by their names.
func (s *Stage) WriteTexts(
	store Store, lock pinset.Lock, setsDir string, sets []pinset.Set, more map[string]Text,
) error {
	if err := WriteLock(s.Path(layout.LockFile), lock); err != nil {
		return err
	}
	files := maps.Clone(more)
	files[AllowlistFile] = Text{kubelet.Allowlist(lock), 0o644}
	if !store.Tree.IsZero() {
		files[layout.RootHashFile(store.Name)] = Text{store.Tree.RootHash(), 0o644}
	}
	for name, content := range pullpolicy.Manifests(lock) {
		files[path.Join(AlwaysDir, name)] = Text{content, 0o644}
	}
	for _, set := range sets {
		files[path.Join(setsDir, pinset.FileName(set.Name))] = Text{set.Render(), 0o644}
	}
	if err := os.Mkdir(s.Path(ManifestsDir), 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.MkdirAll(filepath.Dir(s.Path(name)), 0o755); err != nil {
			return err
		}
		if err := atomicfile.WriteNew(s.Path(name), files[name].Content, files[name].Perm); err != nil {
			return err
		}
	}
	return nil
}

// Write writes a small file, or writes it again.
func (s *Stage) Write(name string, content []byte) error {
	_, err := atomicfile.Write(s.Path(name), content, 0o644)
	return err
}

// Subjects returns the sums of the lock, and of the store unless it is a folder.
func (s *Stage) Subjects(ctx context.Context, store Store) (layout.Sums, error) {
	lock, err := sumOf(ctx, s.Path(layout.LockFile), progress.Hooks{})
	subjects := layout.Sums{layout.LockFile: lock}
	if store.Sum != "" {
		subjects[store.Name] = store.Sum
	}
	return subjects, err
}

// WriteSums writes SHA256SUMS, with a line for every other file of the folder, and then the signatures, which
// it does not list. store is the name of the store, known are sums that were computed before.
func (s *Stage) WriteSums(ctx context.Context, store string, known layout.Sums, hooks progress.Hooks) error {
	sums := maps.Clone(known)
	if err := SumTree(ctx, s.Dir, store, sums, hooks); err != nil {
		return err
	}
	text := sums.Encode()
	if err := s.Write(layout.SumsFile, text); err != nil {
		return err
	}
	return s.signing.write(s.Dir, store, text)
}

// Publish renames the stage to the output folder.
func (s *Stage) Publish() error {
	var folders []string
	err := filepath.WalkDir(s.Path(ManifestsDir), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a split store has no manifests
			return nil
		}
		if err == nil && e.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	for _, dir := range append(folders, s.Dir) {
		if err = errors.Join(err, atomicfile.SyncDir(dir)); err != nil {
			return err
		}
	}
	// os.Rename does not replace an empty folder.
	if err := syscall.Rename(s.Dir, s.out); err != nil {
		return &os.LinkError{Op: "rename", Old: s.Dir, New: s.out, Err: err}
	}
	s.published = true
	return atomicfile.Published(s.out)
}

// Discard removes the stage, unless it was published, and unlocks it.
func (s *Stage) Discard() error {
	if s.published { // s.Dir may be the stage of another build now
		return s.lock.Close()
	}
	return errors.Join(os.RemoveAll(s.Dir), s.lock.Close())
}
