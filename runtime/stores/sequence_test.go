package stores_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// sequenceOps are what may happen to a node, in any order.
var sequenceOps = []string{
	"attach a", "attach b", "rollback", "detach", "compact", "reboot", "lose state", "restart CRI-O", "roll back /etc",
}

// Whatever happens to a node, in any order of up to five: it has the images of the current release, the previous one is
// reachable and the next one again, and it is ready only with the sets of the current release. Equal nodes go on alike,
// so each is tried once.
func TestSequencesOfFive(t *testing.T) {
	base, a, b, apart := numbered(0, 1), numbered(1, 2), numbered(8, 3), numbered(2, 3)
	named := func(o testStore, set string) testStore {
		o.set = set
		return o
	}
	for name, c := range map[string]struct {
		base *testStore // nil for a node without a store of its own
		a, b testStore
	}{
		"b over a":            {&base, a, b},
		"a and b apart":       {&base, a, apart},
		"sets of other names": {&base, named(a, "a"), named(apart, "b")},
		"no store of its own": {nil, numbered(5, 2), numbered(7, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSequences(t, c.base, c.a, c.b)
			seen, changes := map[string]bool{}, map[string]int{}
			next := []world{s.save(world{Before: s.files(s.Sets)})}
			for ; len(next) > 0 && len(next[0].path) < 5; next = next[1:] {
				for _, op := range sequenceOps {
					s.restore(next[0])
					now := s.do(next[0], op)
					if key := now.key(); !seen[key] {
						seen[key], changes[op] = true, changes[op]+1
						s.check(now)
						next = append(next, now)
					}
				}
			}
			t.Logf("%d nodes; what has made another one: %v", len(seen), changes)
		})
	}
}

// world is all that a node has on its disks and mounts.
type world struct {
	Files map[string]string // by path
	// Mounted are the digests of stores by their slots.
	Mounted map[string]string
	// Before is the folder of sets before its last change.
	Before map[string]string
	// Current and Previous are the numbers of the images of these releases, plus 1; 0 for none.
	Current, Previous int

	path []string
}

// times are what differs in equal states.
var times = regexp.MustCompile(`"attached": "[^"]*",`)

// key is equal for equal worlds, whenever they were made.
func (w world) key() string {
	w.Files = maps.Clone(w.Files)
	for path := range w.Files {
		if strings.HasSuffix(path, layout.AttachedSuffix) {
			w.Files[path] = "" // its name is its digest
		}
		w.Files[path] = times.ReplaceAllString(w.Files[path], "")
	}
	text, _ := json.Marshal(w) // strings and numbers
	return string(text)
}

// sequences is a node whose mounts are quick: a store is mounted once, and then only bound to slots.
type sequences struct {
	*testNode
	trees   map[string]string // mount points by the digests of stores
	bound   map[string]string // digests by mount points
	folders map[string]string
	of      map[string]testStore
	own     bool
}

func newSequences(t *testing.T, base *testStore, a, b testStore) *sequences {
	t.Helper()
	t.Setenv("TMPDIR", "/dev/shm") // each step waits for the disk
	first := testStore{n: 0}
	if base != nil {
		first = *base
	}
	s := &sequences{
		testNode: newNode(t, first), trees: map[string]string{}, bound: map[string]string{}, own: base != nil,
		folders: map[string]string{"attach a": a.folder(t), "attach b": b.folder(t)},
		of:      map[string]testStore{"attach a": a, "attach b": b},
	}
	s.Mounter, s.Mapper = s, noMapper{}
	if base == nil {
		s.Appliance = pinset.ReleaseID{}
		if err := errors.Join(syscall.Unmount(s.Slots[0], 0), os.Remove(filepath.Join(s.Sets, "s.yaml"))); err != nil {
			t.Fatal(err)
		}
	}
	s.Wanted = func() (all []pinset.Image, err error) {
		for _, n := range s.sets() {
			all = append(all, imageOf(t, n))
		}
		return all, nil
	}
	return s
}

// noMapper is a node without dm-verity.
type noMapper struct{ mount.DeviceMapper }

func (noMapper) Available(context.Context) error                 { return errors.ErrUnsupported }
func (noMapper) Targets(context.Context) ([]mount.Target, error) { return nil, nil }

// Mount implements mount.Mounter.
func (s *sequences) Mount(_ context.Context, m mount.Mount) error {
	content, err := os.ReadFile(m.What)
	if err != nil {
		return err
	}
	return s.bind(digest.FromBytes(content).Encoded(), string(content), m.Where)
}

func (s *sequences) bind(sum, content, where string) error {
	if s.trees[sum] == "" {
		dir := s.t.TempDir()
		file := filepath.Join(dir, "store.squashfs")
		s.trees[sum] = filepath.Join(dir, "tree")
		if err := errors.Join(os.Mkdir(s.trees[sum], 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			return err
		}
		fixtures.Run(s.t, "mount", "-t", "squashfs", "-o", "ro,loop", file, s.trees[sum])
		s.t.Cleanup(func() { _ = syscall.Unmount(s.trees[sum], syscall.MNT_DETACH) })
	}
	s.bound[where] = sum
	return syscall.Mount(s.trees[sum], where, "", syscall.MS_BIND, "")
}

// Unmount implements mount.Mounter.
func (s *sequences) Unmount(_ context.Context, where string) error { return syscall.Unmount(where, 0) }

// files are the files of the state and of the sets.
func (s *sequences) files(dirs ...string) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // it may not exist yet
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); !strings.HasSuffix(path, ".lock") {
				content, err := os.ReadFile(path)
				if err != nil {
					s.t.Fatal(err)
				}
				all[path] = string(content)
			}
		}
	}
	return all
}

// save returns a world with what is on the node now.
func (s *sequences) save(w world) world {
	s.t.Helper()
	mounted, err := mount.ReadTable()
	if err != nil {
		s.t.Fatal(err)
	}
	w.Files, w.Mounted = s.files(s.Dir, s.Sets), map[string]string{}
	for _, slot := range s.Slots[1:] {
		if mounted[slot] > 0 {
			w.Mounted[slot] = s.bound[slot]
		}
	}
	return w
}

// restore makes the node as it was.
func (s *sequences) restore(w world) {
	s.t.Helper()
	s.reboot()
	for path := range s.files(s.Dir, s.Sets) {
		if err := os.Remove(path); err != nil {
			s.t.Fatal(err)
		}
	}
	for path, content := range w.Files {
		write(s.t, path, content)
	}
	for slot, sum := range w.Mounted {
		if err := s.bind(sum, "", slot); err != nil {
			s.t.Fatal(err)
		}
	}
}

// do does something on a node and makes the passes that follow, which may report once what they mend.
func (s *sequences) do(before world, op string) world {
	s.t.Helper()
	w, ctx := before, s.t.Context()
	w.path = append(slices.Clone(w.path), op)
	sets := s.files(s.Sets)
	switched := func(to int, err error) {
		if err == nil && to+1 != w.Current {
			w.Current, w.Previous = to+1, w.Current
		}
	}
	starts := func() bool { return true }
	if w.Current == 0 && s.own {
		w.Current = 1
	}
	switch op {
	case "attach a", "attach b":
		_, err := s.Attach(ctx, stores.AttachOptions{Source: s.folders[op], GraphRoots: []string{s.main}})
		switched(s.of[op].n, err)
	case "rollback":
		r, err := s.Rollback(ctx, "")
		switched(s.imageOf(r), err)
	case "detach":
		_, _, _ = s.DetachUnused(ctx, s.main)
	case "compact":
		_, _ = s.Compact(ctx, stores.CompactOptions{GraphRoots: []string{s.main}, Write: s.compacted})
	case "lose state":
		_ = os.Remove(filepath.Join(s.Dir, layout.StateFile)) // there may be none
	case "roll back /etc":
		for path := range sets {
			if err := os.Remove(path); err != nil {
				s.t.Fatal(err)
			}
		}
		for path, content := range w.Before {
			write(s.t, path, content)
		}
	}
	switch op {
	case "reboot", "roll back /etc":
		s.reboot()
		_, _ = s.Reconcile(ctx, starts)
	case "restart CRI-O":
		_, _ = s.Reconcile(ctx, starts)
	}
	_, _ = s.Reconcile(ctx, nil)
	if !maps.Equal(s.files(s.Sets), sets) {
		w.Before = sets
	}
	return s.save(w)
}

// compacted writes a store with the images of a plan.
func (s *sequences) compacted(_ context.Context, out io.Writer, p stores.CompactPlan) error {
	all := testStore{n: -1, release: p.Lock.ReleaseID}
	for _, n := range []int{8, 7, 2, 5, 1} {
		switch {
		case !p.Images[idOf("image", n)]:
		case all.n < 0:
			all.n = n
		default:
			all.extra = append(all.extra, n)
		}
	}
	_, err := out.Write(all.squashfs(s.t))
	return err
}

// imageOf is the number of the image of a release.
func (s *sequences) imageOf(r stores.Release) int {
	for _, o := range s.of {
		if o.release == r.ReleaseID {
			return o.n
		}
	}
	return 0
}

// sets are the numbers of the images in the folder of sets.
func (s *sequences) sets() (all []int) {
	for _, content := range s.files(s.Sets) {
		for n := range 10 {
			if strings.Contains(content, pinOf(n)) {
				all = append(all, n)
			}
		}
	}
	return all
}

// has reports whether a mounted store has an image.
func (s *sequences) has(n int) bool {
	for _, slot := range s.Slots {
		names, _ := stores.Names(slot) // there may be no store
		if names[pinOf(n)] != "" {
			return true
		}
	}
	return false
}

// ready reports whether the node says that all is well.
func (s *sequences) ready() (bool, error) {
	all, err := s.Reconcile(s.t.Context(), nil)
	for _, o := range all {
		err = errors.Join(err, o.Problem)
	}
	sets := s.sets()
	lacks := func(n int) bool { return !s.has(n) }
	return err == nil && len(sets) > 0 && !slices.ContainsFunc(sets, lacks), err
}

// check checks what holds for a node after any sequence.
func (s *sequences) check(w world) {
	s.t.Helper()
	wrong := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("%s: "+format, append([]any{strings.Join(w.path, ", ")}, args...)...)
	}
	current := w.Current - 1
	ready, err := s.ready()
	if current >= 0 && !s.has(current) {
		wrong("the images of the current release %d are gone: %v", current, err)
	}
	if ready && !slices.Equal(s.sets(), []int{current}) {
		wrong("ready with the sets %v, want those of %d", s.sets(), current)
	}
	if !ready && current >= 0 {
		if w.path[len(w.path)-1] != "roll back /etc" && slices.Equal(s.sets(), []int{current}) {
			wrong("not ready: %v", err)
		}
		// An operator attaches the current release again.
		source := s.folders["attach a"]
		if s.of["attach b"].n == current {
			source = s.folders["attach b"]
		}
		if current == 0 {
			source = testStore{n: 0, release: s.Appliance}.folder(s.t)
		}
		_, attachErr := s.Attach(s.t.Context(), stores.AttachOptions{Source: source, GraphRoots: []string{s.main}})
		if now, err := s.ready(); !now || !slices.Equal(s.sets(), []int{current}) {
			wrong("not ready after %d, the current one, was attached again: %v, %v; sets %v", current, attachErr, err, s.sets())
		}
		s.restore(w)
	}
	for _, want := range []int{w.Previous - 1, current} {
		if w.Previous == 0 {
			break
		}
		r, err := s.Rollback(s.t.Context(), "")
		if now, problem := s.ready(); err != nil || s.imageOf(r) != want || !now || !slices.Equal(s.sets(), []int{want}) {
			wrong("rollback: got %s, %v, ready: %v, %v, sets %v, want %d", r.Title(), err, now, problem, s.sets(), want)
			break
		}
	}
}
