package firstboot_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/firstboot"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// appliance returns a valid appliance with changes.
func appliance(t *testing.T, change func(*spec.Spec)) spec.Appliance {
	t.Helper()
	a := spec.New(source.Entry{Source: &source.Images{"quay.example.com/a:1"}})
	change(&a.Spec)
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	return a
}

// configured renders the configuration of an appliance of two small sets.
func configured(t *testing.T, change func(*spec.Spec)) (firstboot.Files, error) {
	t.Helper()
	img, err := pinset.ParseImage("quay.example.com/a@sha256:" + strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	sets := []pinset.Set{{Name: "infra", Images: []pinset.Image{img}}, {Name: "worker", Images: []pinset.Image{img}}}
	return configureWith(t, appliance(t, change), sets, []byte("# mirrors\n"), pinset.Program{Digest: digest.FromString("pinbox-node")})
}

func configure(t *testing.T, change func(*spec.Spec)) firstboot.Files {
	t.Helper()
	files, err := configured(t, change)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// write writes a file into a new folder.
func write(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// noise is text that can be compressed to no less than its number of bytes.
func noise(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// butane writes a Butane file for one file of the node, whose content is in a file beside it.
func butane(t *testing.T, path, content string) (name string) {
	t.Helper()
	name = write(t, "snippet.bu", fmt.Sprintf("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: %q\n"+
		"    contents: {local: content}\n", path))
	if err := os.WriteFile(filepath.Join(filepath.Dir(name), "content"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// nodeFiles returns the files in an Ignition config of the appliance's folder.
func nodeFiles(t *testing.T, files firstboot.Files, name string) map[string][]byte {
	t.Helper()
	all, err := ignition.Files(files.Texts()[name].Content)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// merged reports whether the node's config has a file of a Butane file.
func merged(files firstboot.Files, path string) bool {
	return strings.Contains(string(files.Texts()[artifact.ButaneFile].Content), fmt.Sprintf(`"path": %q`, path))
}

// The configs have what the spec, the sets and the mirrors say. Only their owner can read them, since a
// Butane file may have the hash of a password; without one, all can.
func TestTexts(t *testing.T) {
	files := configure(t, func(s *spec.Spec) { s.Ignition.Butane = []string{butane(t, "/etc/motd", "hello\n")} })
	texts := files.Texts()
	if got, want := slices.Sorted(maps.Keys(texts)), []string{"config.bu", "config.ign"}; !slices.Equal(got, want) {
		t.Errorf("got the files %q, want %q", got, want)
	}
	for name, text := range texts {
		if text.Perm != 0o600 {
			t.Errorf("got the mode %o of %s, want 600", text.Perm, name)
		}
	}
	for name, text := range configure(t, func(*spec.Spec) {}).Texts() {
		if text.Perm != 0o644 {
			t.Errorf("without a Butane file: got the mode %o of %s, want 644", text.Perm, name)
		}
	}
	translated, err := ignition.Translate(texts[artifact.ButaneFile].Content)
	if err != nil || !bytes.Equal(translated, texts[artifact.IgnitionFile].Content) {
		t.Errorf("got the Ignition config %s and %v, want that of the Butane config:\n%s",
			texts[artifact.IgnitionFile].Content, err, translated)
	}
	node := nodeFiles(t, files, artifact.IgnitionFile)
	for path, want := range map[string]string{
		provision.RegistriesPath: "# mirrors\n", crio.PinnedImagesPath: "quay.example.com/a@sha256:",
	} {
		if got := string(node[path]); !strings.Contains(got, want) {
			t.Errorf("got %q in %s, want %q", got, path, want)
		}
	}
	if !merged(files, "/etc/motd") {
		t.Errorf("got no /etc/motd in the config, want the file of the Butane file:\n%s", texts[artifact.ButaneFile].Content)
	}
	if got := files.Warnings(); got != nil {
		t.Errorf("got the warnings %q, want none", got)
	}
}

// Only the owner reads a pull secret, in whichever file it is.
func TestPullSecret(t *testing.T) {
	const secret = `{"auths":{"quay.example.com":{"auth":"bWU6c2VjcmV0"},"bad.example.com":{"auth":"?"}}}`
	files := configure(t, func(s *spec.Spec) { s.Node.PullSecret = write(t, "secret.json", secret) })
	for name, text := range files.Texts() {
		if text.Perm != 0o600 {
			t.Errorf("got the mode %o of %s, want 600", text.Perm, name)
		}
	}
	if got := nodeFiles(t, files, artifact.IgnitionFile)[crio.PullSecretPath]; !strings.Contains(string(got), "bWU6c2VjcmV0") {
		t.Errorf("got the pull secret %q on the node, want %s", got, secret)
	}
	if !files.LiveISO().Edit.Private {
		t.Error("got an ISO that all can read, want a private one")
	}
	got := files.Warnings()
	if len(got) != 2 || !strings.Contains(got[0], "bad.example.com") || !strings.Contains(got[1], "contain the pull secret") {
		t.Errorf("got the warnings %q, want one of the bad entry and one of the files with the pull secret", got)
	}
}

// A pipe is refused, because a build reads the pull secret twice.
func TestRefusedPullSecrets(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString(`{"auths":{}}`); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		want error
	}{
		"no file": {"/no/such/secret", fs.ErrNotExist},
		"no JSON": {write(t, "secret.json", "secret"), storage.ErrAccess},
		"pipe":    {fmt.Sprintf("/proc/self/fd/%d", r.Fd()), storage.ErrAccess},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, func(s *spec.Spec) { s.Node.PullSecret = c.path })
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "spec.node.pullSecret: ") ||
				!strings.Contains(err.Error(), c.path) {
				t.Errorf("got %v, want %v with spec.node.pullSecret and %s", err, c.want, c.path)
			}
		})
	}
}

// A node that attaches every medium needs keys to verify it.
func TestAutoAttachWithoutKeys(t *testing.T) {
	for name, c := range map[string]struct {
		autoAttach bool
		path       string // of a file of the node
		want       int
	}{
		"off":                       {false, "/etc/motd", 0},
		"on":                        {true, "/etc/motd", 1},
		"on, with a key":            {true, "/etc/pinbox/keys.d/site.pub", 0},
		"on, with a file beside it": {true, "/etc/pinbox/keys", 1},
	} {
		t.Run(name, func(t *testing.T) {
			files := configure(t, func(s *spec.Spec) {
				s.Node.AutoAttach, s.Ignition.Butane = c.autoAttach, []string{butane(t, c.path, "key")}
			})
			got := files.Warnings()
			if len(got) != c.want || c.want > 0 && !strings.Contains(got[0], "whoever can plug in a medium") {
				t.Errorf("got the warnings %q, want %d of media that are not verified", got, c.want)
			}
		})
	}
}

func TestRefusedButane(t *testing.T) {
	for name, path := range map[string]string{
		"no file":        "/no/such/file.bu",
		"misspelt field": write(t, "a.bu", "variant: fcos\nversion: 1.5.0\nstorge: {}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, func(s *spec.Spec) { s.Ignition.Butane = []string{path} })
			if !errors.Is(err, ignition.ErrButane) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v with %s", err, ignition.ErrButane, path)
			}
		})
	}
}

// A node with its store on a medium or a disk is offline; one that fetches its store has a server.
func TestFilesThatANodeFetches(t *testing.T) {
	file := write(t, "a.bu", "variant: fcos\nversion: 1.5.0\nstorage: {files: [{path: /etc/a, contents: {source: "+
		"'https://boot.lab/a'}}]}\n")
	live := fixtures.LiveISO(t)
	for name, c := range map[string]struct {
		change func(*spec.Spec)
		want   error
	}{
		"partition": {func(s *spec.Spec) { s.Node.Store.PartitionLabel = "pinbox-store" }, ignition.ErrFetch},
		"live":      {func(s *spec.Spec) { s.ISO.Base = live }, ignition.ErrFetch},
		"install": {
			func(s *spec.Spec) { s.ISO = spec.ISO{Base: live, Mode: spec.ModeInstall, InstallDevice: "/dev/sda"} },
			ignition.ErrFetch,
		},
		"second medium": {
			func(s *spec.Spec) { s.ISO.Base, s.Node.Store.VolumeLabel = live, "PINBOX" }, ignition.ErrFetch,
		},
		"store of a server": {
			func(s *spec.Spec) { s.ISO.Base, s.Node.Store.URL = live, "https://boot.lab/store.squashfs" }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := configured(t, func(s *spec.Spec) {
				c.change(s)
				s.Ignition.Butane = []string{file}
			})
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			const warning = "/etc/a is fetched from https://boot.lab/a when the node boots"
			if err == nil && !strings.Contains(strings.Join(files.Warnings(), "\n"), warning) {
				t.Errorf("got the warnings %q, want one with %q", files.Warnings(), warning)
			}
		})
	}
}

// The Ignition area of the ISO has 64 KiB. Files are left for the store until the rest fits: the largest
// first, and no more than necessary.
func TestStoreFiles(t *testing.T) {
	base := fixtures.LiveISO(t)
	for name, c := range map[string]struct {
		base  string
		sizes map[string]int // of the node's files
		want  []string
	}{
		"all fit":              {base, map[string]int{"/a": 20_000, "/b": 20_000}, nil},
		"the largest of three": {base, map[string]int{"/a": 25_000, "/b": 26_000, "/c": 18_000}, []string{"/b"}},
		"the two largest":      {base, map[string]int{"/a": 58_000, "/b": 10_000, "/c": 59_000}, []string{"/c", "/a"}},
		"no ISO":               {"", map[string]int{"/a": 70_000}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := configure(t, func(s *spec.Spec) {
				s.ISO.Base = c.base
				for _, path := range slices.Sorted(maps.Keys(c.sizes)) {
					s.Ignition.Butane = append(s.Ignition.Butane, butane(t, path, noise(c.sizes[path])))
				}
			})
			var got []string
			for _, f := range files.StoreFiles {
				got = append(got, f.Path)
				if want := noise(c.sizes[f.Path]); string(f.Content) != want {
					t.Errorf("got %d bytes of %s for the store, want %d", len(f.Content), f.Path, len(want))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("files for the store (-want +got):\n%s", diff)
			}
			for path := range c.sizes {
				if got, want := merged(files, path), !slices.Contains(c.want, path); got != want {
					t.Errorf("got %t for %s in the config, want %t", got, path, want)
				}
			}
			warnings := strings.Join(files.Warnings(), "\n")
			want := "the Ignition area of the ISO is too small for all files; the node gets these from its store, " +
				"before CRI-O starts: " + strings.Join(c.want, ", ")
			if c.want == nil {
				want = ""
			}
			if warnings != want {
				t.Errorf("got the warnings %q, want %q", warnings, want)
			}
		})
	}
}

// What four times as many files cost, or files of four times the size, is in proportion, although many of them are left
// for the store.
func TestCostOfFiles(t *testing.T) {
	cost := func(files, size int) float64 {
		bu, dir, content := "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n", t.TempDir(), noise(size*files)
		for n := range files {
			bu += fmt.Sprintf("  - {path: /etc/site/%d, contents: {local: %d}}\n", n, n)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), []byte(content[n*size:][:size]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(dir, "site.bu")
		if err := os.WriteFile(name, []byte(bu), 0o644); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := configure(t, func(s *spec.Spec) { s.ISO.Base, s.Ignition.Butane = fixtures.LiveISO(t), []string{name} })
		runtime.ReadMemStats(&after)
		if len(got.StoreFiles) < files/3 {
			t.Fatalf("got %d files of %d left for the store, want a third", len(got.StoreFiles), files)
		}
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	for name, test := range map[string]struct{ less, more float64 }{
		"200 files":     {cost(50, 3000), cost(200, 3000)},
		"files of 2 MB": {cost(4, 500_000), cost(4, 2_000_000)},
	} {
		if test.more/test.less > 6 {
			t.Errorf("got %.0f MB for %s, and %.0f MB for a quarter, want at most six times as much",
				test.more/1e6, name, test.less/1e6)
		}
	}
}

// An ISO of pinbox is taken as it was before, and the user is told so.
func TestWarningOfAnOwnISO(t *testing.T) {
	edited := filepath.Join(t.TempDir(), "edited.iso")
	base, err := iso.OpenBase(fixtures.LiveISO(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	if err := base.Apply(t.Context(), edited, iso.Edit{Ignition: []byte(`{"ignition":{"version":"3.4.0"}}`)}); err != nil {
		t.Fatal(err)
	}
	got := configure(t, func(s *spec.Spec) { s.ISO.Base = edited }).Warnings()
	if len(got) != 1 || !strings.HasPrefix(got[0], edited+" is an ISO of pinbox: it is taken as it was before") {
		t.Errorf("got the warnings %q, want one that says what is taken", got)
	}
}

// A file whose name no unit can contain stays in the config.
func TestConfigThatStaysTooLarge(t *testing.T) {
	const path = "/etc/a name"
	snippet := butane(t, path, noise(70_000))
	_, err := configured(t, func(s *spec.Spec) {
		s.ISO.Base, s.Ignition.Butane = fixtures.LiveISO(t), []string{snippet}
	})
	if !errors.Is(err, iso.ErrTooLarge) || !strings.Contains(err.Error(), "bytes larger than the area of 65536") ||
		!strings.Contains(err.Error(), "with 2 files left for the store, the largest that must stay is "+snippet) {
		t.Errorf("got %v, want %v with the sizes, the two sets for the store and %s", err, iso.ErrTooLarge, snippet)
	}
}

// An ISO that cannot be edited is refused before images are fetched.
func TestRefusedBases(t *testing.T) {
	live := fixtures.LiveISO(t)
	for name, c := range map[string]struct {
		iso  spec.ISO
		want error
	}{
		"no file": {spec.ISO{Base: "/no/such.iso"}, fs.ErrNotExist},
		"no CoreOS": {
			spec.ISO{Base: fixtures.LiveISO(t, "-rock", "-m", "coreos", "-m", "images")}, iso.ErrNoIgnition,
		},
		"no CoreOS, to install": {
			spec.ISO{
				Base: fixtures.LiveISO(t, "-rock", "-m", "coreos", "-m", "images"), Mode: spec.ModeInstall, InstallDevice: "/dev/sda",
			}, iso.ErrNoIgnition,
		},
		"no installer": {
			spec.ISO{
				Base: fixtures.LiveISO(t, "-rock", "-m", "features.json"), Mode: spec.ModeInstall, InstallDevice: "/dev/sda",
			}, iso.ErrNoInstaller,
		},
		"too small for the kernel arguments": {
			spec.ISO{Base: live, KernelArguments: spec.KernelArguments{Append: []string{strings.Repeat("a", 600)}}}, iso.ErrKargs,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, func(s *spec.Spec) { s.ISO = c.iso })
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.iso.Base) {
				t.Errorf("got %v, want %v with %s", err, c.want, c.iso.Base)
			}
		})
	}
}

// The ISO of mode live has the node's config.
func TestLiveISO(t *testing.T) {
	base := fixtures.LiveISO(t)
	content, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.ReplaceAll(content, []byte(fixtures.LiveKargs+"\n######"), []byte(fixtures.LiveKargs+" c d=e\n"))
	if err := os.WriteFile(base, content, 0o644); err != nil {
		t.Fatal(err)
	}
	a := appliance(t, func(s *spec.Spec) {
		s.ISO = spec.ISO{Base: base, Existing: spec.ExistingReplace, KernelArguments: spec.KernelArguments{
			Append: []string{"a", "b"}, Delete: []string{"c"}, Replace: []string{"d=e=f"},
		}}
	})
	files, err := configureWith(t, a, nil, nil, pinset.Program{})
	if err != nil {
		t.Fatal(err)
	}
	want := iso.Edit{
		Architecture: "amd64", Ignition: files.Texts()[artifact.IgnitionFile].Content, Force: true, Kargs: iso.KargsEdit{
			Append: []string{"a", "b"}, Delete: []string{"c"}, Replace: []string{"d=e=f"},
		},
	}
	live := files.LiveISO()
	if diff := cmp.Diff(want, live.Edit); diff != "" || live.Base.Name != a.Spec.ISO.Base || live.NoStore {
		t.Errorf("got the base %s, and this edit (-want +got):\n%s", live.Base.Name, diff)
	}
	a.Spec.Node.Store.VolumeLabel = "PINBOX"
	if files, err = configureWith(t, a, nil, nil, pinset.Program{}); err != nil {
		t.Fatal(err)
	}
	if got := files.LiveISO(); !got.NoStore {
		t.Errorf("got %+v with the store on a medium of its own, want an ISO without it", got)
	}
}

// The ISO of mode install has the live system's config, and in it the node's.
func TestInstaller(t *testing.T) {
	const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBxSYDrPdxVLZ1qMTCYAK0gMMbmLuBnLvxBLDBdLPLvb"
	a := appliance(t, func(s *spec.Spec) {
		s.Ignition.SSHAuthorizedKeys = []string{sshKey}
		s.ISO = spec.ISO{
			Base: fixtures.LiveISO(t), Mode: spec.ModeInstall, InstallDevice: "/dev/sda",
			InstalledKernelArguments: spec.InstalledKernelArguments{Append: []string{"console=ttyS0"}, Delete: []string{"quiet"}},
		}
	})
	files, err := configureWith(t, a, nil, nil, pinset.Program{})
	if err != nil {
		t.Fatal(err)
	}
	texts := files.Texts()
	want := []string{"config.bu", "config.ign", "live.bu", "live.ign"}
	if got := slices.Sorted(maps.Keys(texts)); !slices.Equal(got, want) {
		t.Errorf("got the files %q, want %q", got, want)
	}
	live := texts[artifact.LiveIgnitionFile].Content
	if translated, err := ignition.Translate(texts[artifact.LiveButaneFile].Content); err != nil || !bytes.Equal(translated, live) {
		t.Errorf("got the Ignition config %s and %v, want that of the Butane config:\n%s", live, err, translated)
	}
	if got := files.LiveISO().Edit.Ignition; !bytes.Equal(got, live) {
		t.Errorf("got the config %s in the ISO, want that of the live system:\n%s", got, live)
	}
	if got := string(texts[artifact.LiveButaneFile].Content); !strings.Contains(got, sshKey) {
		t.Errorf("got the config %s of the live system, want it with the SSH key", got)
	}
	inside := nodeFiles(t, files, artifact.LiveIgnitionFile)
	if got := inside["/etc/coreos/dest.ign"]; !bytes.Equal(got, texts[artifact.IgnitionFile].Content) {
		t.Errorf("got %q for the installed system, want the node's config", got)
	}
	const config = "/etc/coreos/installer.d/0000-pinbox.yaml"
	for _, want := range []string{"dest-device: /dev/sda", "console=ttyS0", "quiet"} {
		if got := string(inside[config]); !strings.Contains(got, want) {
			t.Errorf("got %q in %s, want %q", got, config, want)
		}
	}
}

// configureWith opens the base ISO, which stays open while the test runs.
func configureWith(
	t *testing.T, a spec.Appliance, sets []pinset.Set, registries []byte, program pinset.Program,
) (firstboot.Files, error) {
	t.Helper()
	if a.Spec.ISO.Base == "" {
		return firstboot.Configure(a, nil, source.Content{Sets: sets}, registries, program)
	}
	base, err := iso.OpenBase(a.Spec.ISO.Base)
	if err != nil {
		return firstboot.Files{}, err
	}
	t.Cleanup(func() { _ = base.Close() })
	return firstboot.Configure(a, base, source.Content{Sets: sets}, registries, program)
}
