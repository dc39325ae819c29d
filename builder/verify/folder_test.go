package verify_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
)

// wantResult is the result for a folder with a store that is a file.
func wantResult(t *testing.T, dir, store string, files int, delta *verify.Delta) verify.Result {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, store))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := artifact.ReadLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.ReadFile(filepath.Join(dir, layout.RootHashFile(store)))
	if err != nil {
		t.Fatal(err)
	}
	return verify.Result{
		Dir: dir, Files: files, Totals: lock.Totals(), StoreSize: int64(len(content)),
		StoreDigest: digest.FromBytes(content).String(), StoreRootHash: strings.TrimSpace(string(root)), Delta: delta,
	}
}

func TestIntactFolders(t *testing.T) {
	s := built(t)
	for name, test := range map[string]struct {
		dir, store string
		files      int
		delta      *verify.Delta
	}{
		"appliance with an ISO": {s.live, layout.StoreFile, 14, nil},
		"appliance":             {s.base, layout.StoreFile, 13, nil},
		"delta":                 {s.second, layout.DeltaStoreFile, 12, &verify.Delta{Layers: 3, Needs: 5}},
		"delta of a delta":      {s.third, layout.DeltaStoreFile, 12, &verify.Delta{Layers: 3, Needs: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen steps
			got, err := verify.Release(t.Context(), test.dir, verify.Options{Hooks: seen.hooks()})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantResult(t, test.dir, test.store, test.files, test.delta), got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if seen.announced == 0 || seen.got != seen.announced {
				t.Errorf("got progress of %d bytes, want the %d that the steps announce", seen.got, seen.announced)
			}
		})
	}
}

func TestFolderBehindALink(t *testing.T) {
	s := built(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.base, link); err != nil {
		t.Fatal(err)
	}
	if got, err := artifactOf(t, link); err != nil || got.Dir != s.base {
		t.Errorf("got %q, %v, want the folder %q", got.Dir, err, s.base)
	}
}

// A detached signature is made after the sums. Only a file that the sums list can have one.
func TestSignaturesBesideTheFiles(t *testing.T) {
	dir := copied(t, built(t).base)
	shell(t, dir, "touch store.squashfs.sig pinbox.lock.json.sig")
	if _, err := artifactOf(t, dir); err != nil {
		t.Errorf("got %v with two signatures, want no error", err)
	}
	shell(t, dir, "touch unlisted.sig store.squashfs.gpg")
	_, err := artifactOf(t, dir)
	wantProblem(t, err, "unlisted.sig is not in SHA256SUMS", "store.squashfs.gpg is not in SHA256SUMS")
}

func TestEveryChangedFile(t *testing.T) {
	for name, good := range map[string]string{"appliance": built(t).live, "delta": built(t).third} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(good, layout.SumsFile))
			if err != nil {
				t.Fatal(err)
			}
			sums, err := layout.ReadSums(bytes.NewReader(content), layout.MaxSums)
			if err != nil {
				t.Fatal(err)
			}
			for file := range sums {
				dir := copied(t, good)
				shell(t, dir, "printf X >>"+file)
				if _, err := artifactOf(t, dir); !errors.Is(err, release.ErrVerify) ||
					!strings.Contains(err.Error(), file+" has changed: SHA-256 ") ||
					!strings.Contains(err.Error(), "was "+sums[file]) {
					t.Errorf("got %v, want that %s has changed", err, file)
				}
				shell(t, dir, "rm "+file)
				if _, err := artifactOf(t, dir); !errors.Is(err, release.ErrVerify) ||
					!strings.Contains(err.Error(), file+" is missing") {
					t.Errorf("got %v, want that %s is missing", err, file)
				}
			}
		})
	}
}

// All differences between the sums and the files are reported, each once.
func TestSumsOfOtherFiles(t *testing.T) {
	s := built(t)
	for name, test := range map[string]struct {
		dir, script string
		want        []string
	}{
		"an added file":      {s.base, "touch added", []string{"added is not in SHA256SUMS"}},
		"a changed text":     {s.base, "echo >>manifests/worker-sample.yaml", []string{"worker-sample.yaml has changed"}},
		"a missing manifest": {s.base, "rm manifests/*.yaml", []string{"manifests/worker-sample.yaml is missing"}},
		"an unlisted config.bu": {
			s.base, "sed -i /config.bu/d SHA256SUMS",
			[]string{"config.bu is not in SHA256SUMS", "SHA256SUMS has no entry for config.bu"},
		},
		"an unlisted config.ign": {
			s.base, "sed -i /config.ign/d SHA256SUMS",
			[]string{"config.ign is not in SHA256SUMS", "SHA256SUMS has no entry for config.ign"},
		},
		"an unlisted lock": {
			s.base, "sed -i /lock/d SHA256SUMS",
			[]string{"pinbox.lock.json is not in SHA256SUMS", "SHA256SUMS has no entry for pinbox.lock.json"},
		},
		"an unlisted store": {
			s.base, "sed -i /store/d SHA256SUMS",
			[]string{"store.squashfs is not in SHA256SUMS", "store.roothash is not in SHA256SUMS", "SHA256SUMS has no entry for a store"},
		},
		"an unlisted delta.json": {
			s.third, "sed -i /delta.json/d SHA256SUMS",
			[]string{"delta.json is not in SHA256SUMS", "SHA256SUMS has no entry for delta.json"},
		},
		"no lock and no entry for it": {
			s.base, "rm pinbox.lock.json; sed -i /lock/d SHA256SUMS",
			[]string{"SHA256SUMS has no entry for pinbox.lock.json", "pinbox.lock.json: no such file"},
		},
		"no manifest and no entry for it": {
			s.base, "rm -r manifests; sed -i /manifests/d SHA256SUMS", []string{"worker-sample.yaml: no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, test.dir)
			shell(t, dir, test.script)
			_, err := artifactOf(t, dir)
			wantProblem(t, err, test.want...)
		})
	}
}

// The files match the sums, which were made again, but not each other.
func TestContradictingFiles(t *testing.T) {
	s := built(t)
	const otherSet = "manifests/worker-sample.yaml is not the set of the lock"
	for name, test := range map[string]struct {
		dir, script, want string
	}{
		"damaged lock":     {s.base, "echo x >pinbox.lock.json", "pinbox.lock.json: "},
		"damaged manifest": {s.base, "echo x >manifests/worker-sample.yaml", "manifests/worker-sample.yaml:1: "},
		"manifest with two sets": {
			s.base, "cd manifests; (echo ---; sed s/worker/infra/ *.yaml) >second; cat second >>worker-sample.yaml; rm second",
			otherSet,
		},
		"manifest with another name": {s.base, "sed -i s/name:.worker-sample/name:\\ other/ manifests/*.yaml", otherSet},
		"manifest with another label": {
			s.base, "sed -i s/role:.worker/role:\\ infra/ manifests/*.yaml", otherSet,
		},
		"manifest with other images": {
			s.base, "cp " + s.live + "/manifests/*.yaml manifests/", otherSet,
		},
		"manifest of a delta": {
			s.third, "cp " + s.live + "/manifests/*.yaml manifests/", otherSet,
		},
		"damaged Butane": {s.base, "echo x: x >config.bu", "config.bu: "},
		"Ignition of another appliance": {
			s.base, "cp " + s.live + "/config.ign .", "config.ign is not what config.bu translates to",
		},
		"pins of another appliance": {
			s.base, "cp " + s.live + "/config.ign " + s.live + "/config.bu .",
			"config.ign does not pin the images of the lock",
		},
		"damaged store":   {s.base, "echo x >store.squashfs", "store.squashfs: there is no hash tree"},
		"truncated store": {s.base, "truncate -s -4096 store.squashfs", "store.squashfs: there is no hash tree"},
		"store with a changed block": {
			s.base, "printf x | dd of=store.squashfs bs=1 seek=5000 conv=notrunc",
			"store.squashfs: the hash tree is not that of the data",
		},
		"config for another store": {
			s.base, "cp " + s.live + "/store.squashfs " + s.live + "/store.roothash .",
			"config.ign: another root hash than that of the store",
		},
		"another root hash":                {s.base, "cp " + s.live + "/store.roothash .", "store.roothash is not the root hash of"},
		"damaged ISO":                      {s.live, "echo x >appliance.iso", "appliance.iso: "},
		"ISO with another lock":            {s.live, "echo >>pinbox.lock.json", "appliance.iso has another lock.json than the folder"},
		"damaged description":              {s.third, "echo x >delta.json", "delta.json: "},
		"description with a newer version": {s.third, "sed -i s/1,/9,/ delta.json", "delta.json: "},
		"delta with the store of an appliance": {
			s.third, "cp " + s.base + "/store.squashfs delta.squashfs; cp " + s.base + "/store.roothash delta.roothash",
			"delta.squashfs has another delta.json",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, test.dir)
			shell(t, dir, test.script)
			resum(t, dir)
			_, err := artifactOf(t, dir)
			wantProblem(t, err, test.want)
		})
	}
}

// The Ignition config in the boot files of a live ISO is compared too.
func TestISOWithAnotherConfig(t *testing.T) {
	s := built(t)
	dir := copied(t, s.live)
	shell(t, dir, "cp "+s.base+"/config.ign "+s.base+"/config.bu .")
	resum(t, dir)
	_, err := artifactOf(t, dir)
	wantProblem(t, err, "appliance.iso has another config.ign than the folder",
		"config.ign does not pin the images of the lock")
}

// Only the changed file is reported: a folder with one is not checked as a delta.
func TestChangedDelta(t *testing.T) {
	dir := copied(t, built(t).third)
	shell(t, dir, "echo x >delta.json")
	_, err := artifactOf(t, dir)
	wantProblem(t, err, "delta.json has changed")
}

func TestMissingConfigs(t *testing.T) {
	for _, file := range []string{artifact.ButaneFile, artifact.IgnitionFile} {
		t.Run(file, func(t *testing.T) {
			dir := copied(t, built(t).base)
			shell(t, dir, "rm "+file)
			_, err := artifactOf(t, dir)
			wantProblem(t, err, file+" is missing", file+": no such file")
		})
	}
}

func TestRefusedFolders(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		want error
	}{
		"missing folder":     {filepath.Join(t.TempDir(), "missing"), fs.ErrNotExist},
		"empty folder":       {t.TempDir(), release.ErrNotAppliance},
		"file":               {filepath.Join(built(t).base, layout.LockFile), release.ErrNotAppliance},
		"ISO without pinbox": {fixtures.LiveISO(t), release.ErrNotAppliance},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := artifactOf(t, test.path)
			if !errors.Is(err, test.want) || errors.Is(err, release.ErrVerify) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if diff := cmp.Diff(verify.Result{}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// A verification that is interrupted does not find anything wrong.
func TestInterruptedVerification(t *testing.T) {
	s := built(t)
	for name, path := range map[string]string{"folder": s.live, "delta": s.third, "ISO": s.medium} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			_, err := verify.Release(ctx, path, verify.Options{})
			if err != context.Canceled { //nolint:errorlint // it is not wrapped
				t.Errorf("got %v, want %v alone", err, context.Canceled)
			}
		})
	}
}
