package stores_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

// programOf is a program for this machine, as far as a node looks at it.
func programOf(t *testing.T, version string) (string, pinset.Program) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	header := make([]byte, 64)
	if _, err := io.ReadFull(self, header); err != nil {
		t.Fatal(err)
	}
	content := string(header) + version
	return content, pinset.Program{Digest: digest.FromString(content), Version: version}
}

// withProgram returns the store with a release number and a program.
func (s testStore) withProgram(t *testing.T, number int64, version string) testStore {
	t.Helper()
	content, program := programOf(t, version)
	s.release = pinset.ReleaseID{Name: "small", Number: number}
	s.lock = func(l *pinset.Lock) { l.Program = &program }
	s.damage = func(tree string) error {
		return os.WriteFile(filepath.Join(tree, "pinbox/pinbox-node"), []byte(content), 0o755)
	}
	return s
}

// newProgramNode is newNode for a node whose units install the program of its own store.
func newProgramNode(t *testing.T, version string) *testNode {
	t.Helper()
	d := newNode(t, testStore{n: 0}.withProgram(t, 1, version))
	d.Programs = filepath.Join(filepath.Dir(d.Dir), "programs")
	_, d.OwnProgram = programOf(t, version)
	return d
}

// wantProgram checks which program the units install, "" for that of the appliance's own store, and which ones are
// kept.
func (d *testNode) wantProgram(current string, kept ...string) {
	d.t.Helper()
	named, err := os.ReadFile(filepath.Join(d.Programs, "current"))
	want := map[string]string{}
	if current != "" {
		content, program := programOf(d.t, current)
		want["current"], want[program.Digest.Encoded()] = program.Digest.Encoded()+"\n", content
	}
	if string(named) != want["current"] {
		d.t.Errorf("got the program %q, %v, want %q", named, err, want["current"])
	}
	for _, version := range kept {
		content, program := programOf(d.t, version)
		want[program.Digest.Encoded()] = content
	}
	got := map[string]string{}
	entries, _ := os.ReadDir(d.Programs)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(d.Programs, e.Name()))
		if err != nil {
			d.t.Fatal(err)
		}
		got[e.Name()] = string(content)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		d.t.Errorf("got the files %q, want %q", got, want)
	}
}

// A newer release brings its program, and a rollback the one of before.
func TestProgramMovesOn(t *testing.T) {
	d := newProgramNode(t, "v1.0.0")
	d.wantProgram("")
	d.attach(stores.AttachOptions{Source: testStore{n: 1}.withProgram(t, 2, "v1.1.0").folder(t)})
	d.wantProgram("v1.1.0")
	d.rollback(0)
	d.wantProgram("", "v1.1.0")
	d.attach(stores.AttachOptions{Source: testStore{n: 2}.withProgram(t, 3, "v1.2.0").folder(t)})
	d.wantProgram("v1.2.0") // the release 2 is not kept: KeepPrevious is 1, and the one of before is the appliance's own
	d.attach(stores.AttachOptions{Source: testStore{n: 3}.withProgram(t, 4, "v1.3.0").folder(t)})
	d.wantProgram("v1.3.0", "v1.2.0")
	d.rollback(2)
	d.wantProgram("v1.2.0", "v1.3.0")
}

// Newer wins over older by the version; programs without one have the order of their releases.
func TestOrderOfPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		own, next string
		options   stores.AttachOptions
		without   bool // the store has no program
		want      string
	}{
		"newer":                  {own: "v1.0.0", next: "v1.10.0", want: "v1.10.0"},
		"older":                  {own: "v1.10.0", next: "v1.9.0"},
		"older, by force":        {own: "v1.10.0", next: "v1.9.0", options: stores.AttachOptions{Force: true}},
		"without a version":      {own: "dev", next: "dev 2", want: "dev 2"},
		"one without a version":  {own: "v1.0.0", next: "dev", want: "dev"},
		"the same":               {own: "v1.0.0", next: "v1.0.0"},
		"only the sets stay":     {own: "v1.0.0", next: "v1.1.0", options: stores.AttachOptions{KeepSets: true}},
		"that the bases had":     {own: "v1.0.0", next: "v1.1.0", without: true},
		"a release candidate":    {own: "v1.1.0", next: "v1.1.0-rc.1"},
		"the program of a stick": {own: "v1.0.0", next: "v1.1.0", options: stores.AttachOptions{Auto: true}, want: "v1.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newProgramNode(t, c.own)
			store := testStore{n: 1}.withProgram(t, 2, c.next)
			if c.without {
				store.damage = nil
			}
			c.options.Source = store.folder(t)
			a, err := d.Attach(t.Context(), c.options)
			if err != nil || (a.Program != nil) != (c.want != "") {
				t.Fatalf("got %v, %v, want no error, and the program %q", a.Program, err, c.want)
			}
			d.wantProgram(c.want)
		})
	}
}

// A program of a later release goes back to an older one by --force only, and never below that of the appliance's own
// store, which may have moved on with the configuration of the node.
func TestOlderProgram(t *testing.T) {
	for name, c := range map[string]struct {
		force bool
		want  string
		kept  []string
	}{"without force": {false, "v1.3.0", nil}, "by force": {true, "v1.2.0", []string{"v1.3.0"}}} {
		t.Run(name, func(t *testing.T) {
			d := newProgramNode(t, "v1.0.0")
			d.attach(stores.AttachOptions{Source: testStore{n: 1}.withProgram(t, 2, "v1.3.0").folder(t)})
			d.attach(stores.AttachOptions{Source: testStore{n: 2}.withProgram(t, 3, "v1.2.0").folder(t), Force: c.force})
			d.wantProgram(c.want, c.kept...)
			_, d.OwnProgram = programOf(t, "v1.4.0")
			if err := d.reconcile(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(d.Programs, "current")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v for the program of the release, want that of the configuration to count", err)
			}
		})
	}
}

// A node whose program somebody else installs, such as the image of its system, takes none.
func TestProgramOfTheSystem(t *testing.T) {
	d := newProgramNode(t, "v1.0.0")
	d.OwnProgram = pinset.Program{}
	d.attach(stores.AttachOptions{Source: testStore{n: 1}.withProgram(t, 2, "v1.1.0").folder(t)})
	d.wantProgram("")
}

// A node with keys takes the program of a store only if one of them signed the store.
func TestProgramOfAnUnsignedStore(t *testing.T) {
	d := newProgramNode(t, "v1.0.0")
	source := testStore{n: 1}.withProgram(t, 2, "v1.1.0").folder(t)
	key := sign(t, filepath.Join(copyStore(t, source), "delta.squashfs"))
	write(t, filepath.Join(d.Keys, "site.pub"), string(key))
	if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: source}); !errors.Is(err, stores.ErrUnsigned) {
		t.Errorf("got %v, want ErrUnsigned", err)
	}
	d.wantProgram("")
	write(t, filepath.Join(d.Keys, "site.pub"), string(sign(t, filepath.Join(source, "delta.squashfs"))))
	d.attach(stores.AttachOptions{Source: source})
	d.wantProgram("v1.1.0")
}

// A program that does not run on the node, or is not the one of the lock, is refused with its store, and so is one
// for which there is no space. Nothing has changed then.
func TestBadProgram(t *testing.T) {
	full := errors.New("no space")
	for name, c := range map[string]struct {
		content string
		fits    func(int64) error
		want    error
	}{
		"another machine": {content: "\x7fELF\x02\x01\x01" + strings.Repeat("\xff", 100), want: stores.ErrProgram},
		"a script":        {content: "#!/bin/sh\n", want: stores.ErrProgram},
		"not of the lock": {want: stores.ErrProgram},
		"no space for it": {want: full, fits: func(bytes int64) error {
			if bytes < 4096 { // the store is larger
				return full
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newProgramNode(t, "v1.0.0")
			store := testStore{n: 1}.withProgram(t, 2, "v1.1.0")
			content := c.content
			if content != "" {
				store.lock = func(l *pinset.Lock) { l.Program = &pinset.Program{Digest: digest.FromString(content)} }
			}
			if c.fits == nil {
				store.damage = func(tree string) error {
					return os.WriteFile(filepath.Join(tree, "pinbox/pinbox-node"), []byte(content), 0o755)
				}
			}
			_, err := d.Attach(t.Context(), stores.AttachOptions{Source: store.folder(t), Node: asked{fits: c.fits}})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			d.wantMounted()
			if err := d.reconcile(); err != nil {
				t.Fatal(err)
			}
			d.wantProgram("")
		})
	}
}

// A copy that is damaged or lost is made again when the store is attached again. What a process left that was killed
// before or after it wrote the state is removed or completed.
func TestDamagedProgram(t *testing.T) {
	d := newProgramNode(t, "v1.0.0")
	source := testStore{n: 1}.withProgram(t, 2, "v1.1.0").folder(t)
	d.attach(stores.AttachOptions{Source: source})
	_, program := programOf(t, "v1.1.0")
	file := filepath.Join(d.Programs, program.Digest.Encoded())
	for name, damage := range map[string]func() error{
		"changed":     func() error { return os.WriteFile(file, []byte("other"), 0o700) },
		"removed":     func() error { return os.Remove(file) },
		"half a copy": func() error { return os.WriteFile(filepath.Join(d.Programs, "incoming.part"), nil, 0o700) },
		"half a name": func() error { return os.WriteFile(filepath.Join(d.Programs, "current.part"), nil, 0o700) },
		"before its rename": func() error {
			current := filepath.Join(d.Programs, "current")
			return os.Rename(current, current+".part")
		},
		"before the state": func() error { return os.WriteFile(filepath.Join(d.Programs, "0123"), []byte("x"), 0o700) },
		"after the state":  func() error { return os.Remove(filepath.Join(d.Programs, "current")) },
		"all":              func() error { return os.RemoveAll(d.Programs) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			d.attach(stores.AttachOptions{Source: source})
			if err := d.reconcile(); err != nil {
				t.Fatal(err)
			}
			d.wantProgram("v1.1.0")
		})
	}
}

// After a rollback to a program that does not read the state, the error names the one that does. Nothing has changed.
func TestProgramOfARollbackRefusesTheState(t *testing.T) {
	d := newProgramNode(t, "v1.0.0")
	for n, version := range []string{"v1.1.0", "v1.2.0"} {
		d.attach(stores.AttachOptions{Source: testStore{n: n + 1}.withProgram(t, int64(n+2), version).folder(t)})
	}
	d.rollback(1)
	d.wantProgram("v1.1.0", "v1.2.0")
	for _, name := range []string{"state.json", "state.json.copy"} {
		fixtures.Run(t, "sed", "-i", `s/"version": 1,/"version": 2,/`, filepath.Join(d.Dir, name))
	}
	_, later := programOf(t, "v1.2.0")
	want := "`" + filepath.Join(d.Programs, later.Digest.Encoded()) + " attach`"
	_, statusErr := d.Status(t.Context())
	for name, err := range map[string]error{"reconcile": d.reconcile(), "status": statusErr} {
		if !errors.Is(err, pinset.ErrNewer) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an ErrNewer with %s", name, err, want)
		}
	}
	d.wantProgram("v1.1.0", "v1.2.0")
}
