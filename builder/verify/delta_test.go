package verify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/verity"
)

// An intact delta is verified with its bases, from folders and from ISOs.
func TestVerifyDelta(t *testing.T) {
	fixtures.NeedRoot(t)
	s := built(t)
	wantNoTemporaryFiles(t)
	baseLock := filepath.Join(s.base, layout.LockFile)
	for name, test := range map[string]struct {
		delta string
		bases []string
		want  verify.Delta
		open  []string // bases that are not checked
	}{
		"chain":   {s.third, []string{s.second, s.base}, verify.Delta{Layers: 3, Needs: 8, Mounted: true}, nil},
		"medium":  {s.medium, []string{s.base, s.second}, verify.Delta{Layers: 3, Needs: 8, Mounted: true}, nil},
		"no base": {s.third, nil, verify.Delta{Layers: 3, Needs: 8}, nil},
		"only a lock": {
			s.third, []string{s.second, baseLock}, verify.Delta{Layers: 3, Needs: 8},
			[]string{baseLock + " has no store that can be mounted: its layers were read from the lock only"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen steps
			got, err := verify.Release(t.Context(), test.delta, verify.Options{Bases: test.bases, Hooks: seen.hooks()})
			if err != nil {
				t.Fatal(err)
			}
			test.want.Bases = test.bases
			if diff := cmp.Diff(&test.want, got.Delta); diff != "" {
				t.Errorf("delta (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.open, got.Unchecked); diff != "" || got.Totals.Images != 4 {
				t.Errorf("got %d images, want 4; not checked (-want +got):\n%s", got.Totals.Images, diff)
			}
			if slices.Contains(seen.names, "check layers") != test.want.Mounted {
				t.Errorf("got the steps %q, want one that checks layers: %v", seen.names, test.want.Mounted)
			}
		})
	}
}

func TestDeltaWithOtherBases(t *testing.T) {
	fixtures.NeedRoot(t)
	s := built(t)
	wantNoTemporaryFiles(t)
	arm := filepath.Join(t.TempDir(), "lock.json")
	shell(t, s.base, "sed s:linux/amd64:linux/arm64: pinbox.lock.json >"+arm)
	changed := copied(t, s.base)
	shell(t, changed, "echo >>config.bu")
	changedDelta := copied(t, s.third)
	shell(t, changedDelta, "echo >>delta.json")
	wrongDelta := repacked(t, s.second, func(_, tree string) { shell(t, tree, "rm pinbox/pinbox.lock.json") })
	for name, test := range map[string]struct {
		delta string
		bases []string
		want  error
		text  string
	}{
		"base missing":          {s.third, []string{s.second}, verify.ErrMissing, "5 of 8 are missing"},
		"delta between missing": {s.third, []string{s.base}, verify.ErrMissing, "3 of 8 are missing"},
		"medium without base":   {s.medium, []string{s.second}, verify.ErrMissing, "5 of 8 are missing"},
		"changed layer of a base": {
			s.third, []string{s.second, tampered(t, s.base)}, release.ErrVerify, "file integrity checksum failed",
		},
		"changed layer of a delta": {
			tampered(t, s.third), []string{s.second, s.base}, release.ErrVerify, "file integrity checksum failed",
		},
		"changed delta": {changedDelta, []string{s.second, s.base}, release.ErrVerify, "delta.json has changed"},
		"changed base":  {s.third, []string{s.second, changed}, release.ErrVerify, "config.bu has changed"},
		"base that is another file": {
			s.third, []string{filepath.Join(s.base, "config.bu")}, release.ErrNotAppliance, "config.bu",
		},
		"base of another platform": {s.third, []string{arm}, base.ErrUnsuitable, "linux/arm64"},
		"base that is a wrong delta": {
			s.third, []string{wrongDelta, s.base}, release.ErrVerify, "pinbox/pinbox.lock.json: file does not exist",
		},
		"not a delta": {s.base, []string{s.base}, verify.ErrNotDelta, "not a delta"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify.Release(t.Context(), test.delta, verify.Options{Bases: test.bases})
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
		})
	}
}

// wantNoTemporaryFiles sets TMPDIR to a folder that must be empty, with nothing mounted below, when the
// test ends.
func wantNoTemporaryFiles(t *testing.T) {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Cleanup(func() {
		if mounts := fixtures.Run(t, "cat", "/proc/self/mountinfo"); strings.Contains(mounts, tmp) {
			t.Errorf("got these mounts, want none below %s:\n%s", tmp, mounts)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v, want an empty folder", left, err)
		}
	})
}

// repacked copies a folder, and calls change with the copy and the tree of its store.
func repacked(t *testing.T, dir string, change func(out, tree string)) string {
	t.Helper()
	out, tree := copied(t, dir), filepath.Join(t.TempDir(), "tree")
	stores, err := filepath.Glob(filepath.Join(out, "*.squashfs"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("got the stores %v, %v; want one", stores, err)
	}
	fixtures.Run(t, "unsquashfs", "-quiet", "-no-progress", "-dest", tree, stores[0])
	change(out, tree)
	store := filepath.Base(stores[0])
	shell(t, out, "sha256sum "+store+" | cut -c1-64 >../sum; rm "+store)
	fixtures.Run(t, "mksquashfs", tree, stores[0], "-quiet", "-no-progress")
	nameTree(t, out, fixtures.AddTree(t, stores[0]))
	shell(t, out, "sed -i s/$(cat ../sum)/$(sha256sum "+store+" | cut -c1-64)/ provenance.json")
	resum(t, out)
	return out
}

// rootInConfig finds the lines of a Butane config that name the hash tree of a store.
var rootInConfig = regexp.MustCompile(`ROOT_HASH=[0-9a-f]{64}(\s+)BLOCKS=[0-9]+`)

// nameTree has the configs of an appliance name another hash tree.
func nameTree(t *testing.T, out string, tree verity.Tree) {
	t.Helper()
	name := filepath.Join(out, artifact.ButaneFile)
	bu, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) { // a delta
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	bu = rootInConfig.ReplaceAll(bu, fmt.Appendf(nil, "ROOT_HASH=%s${1}BLOCKS=%d", tree.Root.Encoded(), tree.Blocks))
	ign, err := ignition.Translate(bu)
	if err := errors.Join(err, os.WriteFile(name, bu, 0o644),
		os.WriteFile(filepath.Join(out, artifact.IgnitionFile), ign, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// tampered changes a byte of a file in a store so that only somebody who knows what was
// in the layer can tell.
func tampered(t *testing.T, dir string) string {
	t.Helper()
	return repacked(t, dir, func(_, tree string) {
		files, err := filepath.Glob(filepath.Join(tree, "overlay/*/diff/release"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		fi, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		content[0] ^= 1
		if err := errors.Join(os.WriteFile(files[0], content, 0o644),
			os.Chtimes(files[0], fi.ModTime(), fi.ModTime())); err != nil {
			t.Fatal(err)
		}
	})
}

// Differences between a delta and its lock are detected without a base.
func TestVerifyDetectsAWrongDescription(t *testing.T) {
	fixtures.NeedRoot(t)
	s := built(t)
	for name, c := range map[string]struct {
		change func(*pinset.Delta)
		files  []string // folders with the change
		text   string
	}{
		"unknown need": {
			func(d *pinset.Delta) { d.Needs[4].Layer = strings.Repeat("f", 64) }, []string{"out", "tree/pinbox"},
			"which no image of the lock has",
		},
		"needs are missing": {
			func(d *pinset.Delta) { d.Needs = d.Needs[:0] }, []string{"out", "tree/pinbox"},
			"the store has 3 layers, want the 8",
		},
		"wrong link": {
			func(d *pinset.Delta) { d.Needs[0].Link = strings.Repeat("X", 26) }, []string{"out", "tree/pinbox"},
			`"XXXXXXXXXXXXXXXXXXXXXXXXXX" of the layer`,
		},
		"not sorted":      {func(d *pinset.Delta) { slices.Reverse(d.Needs) }, []string{"out", "tree/pinbox"}, "not sorted"},
		"unknown version": {func(d *pinset.Delta) { d.Version = 9 }, []string{"out", "tree/pinbox"}, "version 9"},
		"need above an own layer": {
			func(d *pinset.Delta) { d.Needs = d.Needs[len(d.Needs)-1:] }, []string{"out", "tree/pinbox"},
			"from a base, but has the layer below it itself",
		},
		"only in the folder": {
			func(d *pinset.Delta) { d.Bases = nil }, []string{"out"}, "delta.squashfs has another delta.json",
		},
		"only in the store": {
			func(d *pinset.Delta) { d.Bases = nil }, []string{"tree/pinbox"}, "delta.squashfs has another delta.json",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad := repacked(t, s.second, func(out, tree string) {
				replace(t, c.change, c.files, strings.NewReplacer("out", out, "tree", tree))
			})
			if _, err := artifactOf(t, bad); !errors.Is(err, release.ErrVerify) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, release.ErrVerify, c.text)
			}
		})
	}
}

// replace changes the description of a delta and writes it to folders.
func replace(t *testing.T, change func(*pinset.Delta), folders []string, names *strings.Replacer) {
	t.Helper()
	content, err := os.ReadFile(names.Replace("out/" + layout.DeltaFile))
	if err != nil {
		t.Fatal(err)
	}
	var d pinset.Delta
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	change(&d)
	var b bytes.Buffer
	if err := d.Encode(&b); err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if err := os.WriteFile(names.Replace(folder+"/"+layout.DeltaFile), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The store of a delta must have the lock's layers and names, and the lock.
func TestVerifyDetectsAWrongDeltaStore(t *testing.T) {
	fixtures.NeedRoot(t)
	s := built(t)
	for name, test := range map[string]struct {
		script string
		want   []string
	}{
		"renamed image": {
			"sed -i s/series.app@/series-app@/ overlay-images/images.json",
			[]string{"the lock lists " + s.pins[1][1] + " as a name of the image"},
		},
		"diff that is a link": {
			"for d in overlay/*/diff; do rm -rf $d; ln -s /etc $d; done", []string{"/diff: a symbolic link, want a folder"},
		},
		"lock missing": {
			"rm pinbox/pinbox.lock.json", []string{"store: open pinbox/pinbox.lock.json: file does not exist"},
		},
		"another lock":    {"echo >>pinbox/pinbox.lock.json", []string{"the store has another pinbox.lock.json"}},
		"no layers":       {"echo [] >overlay-layers/layers.json", []string{"the store has 0 layers, want the 3 that"}},
		"bad layers":      {"echo x >overlay-layers/layers.json", []string{"store: "}},
		"bad images":      {"echo x >overlay-images/images.json", []string{"store: "}},
		"bad description": {"echo x >pinbox/delta.json", []string{"store: "}},
		"description is a folder": {
			"rm pinbox/delta.json; mkdir pinbox/delta.json", []string{"store: "},
		},
		"no description": {"rm pinbox/delta.json", []string{"delta.squashfs has another delta.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := repacked(t, s.second, func(_, tree string) { shell(t, tree, test.script) })
			_, err := artifactOf(t, bad)
			wantProblem(t, err, test.want...)
		})
	}
}
