package look_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/image"
	ocilayout "go.podman.io/image/v5/oci/layout"
	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/look"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/root"
	"github.com/pinbox/pinbox/storage/signature"
)

func TestMain(m *testing.M) {
	if !root.Init() {
		oracle.Main(m)
	}
}

// opened opens releases until the end of the test.
func opened(t *testing.T, names ...string) *look.Images {
	t.Helper()
	images, err := open(t, names...)
	if err != nil {
		t.Fatal(err)
	}
	return images
}

func open(t *testing.T, names ...string) (*look.Images, error) {
	t.Helper()
	images, err := look.Open(t.Context(), names, signature.Keys{}, progress.Hooks{})
	if err == nil {
		t.Cleanup(func() {
			if err := images.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return images, err
}

// viewOf returns the files of an image, as described has them of a mount.
func viewOf(t *testing.T, images *look.Images, name string) map[string]string {
	t.Helper()
	v, err := images.View(name)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	err = v.List("/", true, func(f look.File) error {
		text := fmt.Sprintf("%s %d:%d %d %d,%d %s", f.Mode, f.UID, f.GID, f.ModTime.Unix(), f.Major, f.Minor, f.Target)
		if fs.FileMode(f.Mode).IsRegular() {
			var content bytes.Buffer
			if err := v.Copy(t.Context(), f.Name, &content); err != nil {
				return err
			}
			text += fmt.Sprintf("%d %x", f.Size, sha256.Sum256(content.Bytes()))
		}
		all[f.Name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// described are the files of a mounted image.
func described(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		st, target := fi.Sys().(*syscall.Stat_t), ""
		if fi.Mode().Type() == fs.ModeSymlink {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		device := uint64(st.Rdev) //nolint:unconvert // an int32 elsewhere
		text := fmt.Sprintf("%s %d:%d %d %d,%d %s", look.Mode(fi.Mode()), st.Uid, st.Gid, fi.ModTime().Unix(),
			unix.Major(device), unix.Minor(device), target)
		if fi.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf("%d %x", len(content), sha256.Sum256(content))
		}
		name, err := filepath.Rel(dir, path)
		all[name] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each form of a release has the files that containers/storage mounts for a container.
func TestImagesAsMounted(t *testing.T) {
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := appliance.Options(t, pins.Sets())
	o.Appliance.Spec.Node.Store.VolumeLabel = layout.MediumLabel
	appliance.Build(t, o)
	store := filepath.Join(o.Out, layout.StoreFile)
	mounted := fixtures.Mount(t, store)
	mountedImages := func(graphRoot string) map[string]map[string]string {
		library, all := oracle.Open(t, "", graphRoot), map[string]map[string]string{}
		for _, pin := range pins.All() {
			all[pin] = described(t, oracle.Mount(t, library, pin))
		}
		return all
	}
	medium := filepath.Join(t.TempDir(), "medium.iso")
	parts := filepath.Join(t.TempDir(), "parts")
	for _, m := range []artifact.MediumOptions{{Dir: o.Out, Out: medium}, {Dir: o.Out, Out: parts, Split: 2 << 20}} {
		if err := artifact.Medium(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	folder := appliance.Options(t, pins.Sets())
	folder.Appliance.Spec.Store.Format = format.Dir
	appliance.Build(t, folder)
	ofSquashfs := mountedImages(mounted)
	ofFolder := mountedImages(filepath.Join(folder.Out, layout.StoreDir)) // the library gives other times to folders
	for form, name := range map[string]string{
		"folder": o.Out, "medium": medium, "parts": parts, "file": store, "mounted": mounted, "dir": folder.Out,
	} {
		t.Run(form, func(t *testing.T) {
			images, want := opened(t, name), ofSquashfs
			if form == "dir" {
				want = ofFolder
			}
			if got := images.List(); len(got) != len(want) {
				t.Errorf("got the images %+v, want %d", got, len(want))
			}
			for pin := range want {
				if diff := cmp.Diff(want[pin], viewOf(t, images, pin)); diff != "" {
					t.Errorf("%s (-mounted +look):\n%s", pin, diff)
				}
				if _, err := images.Extract(t.Context(), pin, filepath.Join(t.TempDir(), "image"), progress.Hooks{}); err != nil {
					t.Errorf("%s: %v", pin, err)
				}
			}
		})
	}
}

// containers/image reads what Extract writes, with the configuration of the image and its DiffIDs; and a build of it
// has the same image.
func TestExtract(t *testing.T) {
	_, pins := fixtures.Samples(t)
	o := appliance.Options(t, pins.Sets())
	appliance.Build(t, o)
	images := opened(t, o.Out)
	for n, locked := range images.Images {
		dir := filepath.Join(t.TempDir(), "image")
		got, err := images.Extract(t.Context(), locked.Pin, dir, progress.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		config := readLayout(t, dir, got)
		if want := locked.Config; digest.FromBytes(config) != want || got.ID != want.Encoded() {
			t.Errorf("%s: got the image %s, want %s", locked.Pin, digest.FromBytes(config), want)
		}
		if n > 0 {
			continue
		}
		again := appliance.Options(t, nil)
		again.Appliance = spec.New(source.Entry{Source: &source.OCI{{Path: dir}}})
		appliance.Build(t, again)
		if lock := appliance.Lock(t, again.Out); len(lock.Images) != 1 || lock.Images[0].Config != locked.Config {
			t.Errorf("got a build with %+v, want the image %s", lock.Images, locked.Config)
		}
	}
}

// readLayout reads an image of an OCI layout by its name, compares its layers with their DiffIDs, and returns its
// configuration.
func readLayout(t *testing.T, dir string, e look.Extracted) []byte {
	t.Helper()
	ref, err := ocilayout.NewReference(dir, e.Name)
	if err != nil {
		t.Fatal(err)
	}
	src, err := ref.NewImageSource(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	img, err := image.FromUnparsedImage(t.Context(), nil, image.UnparsedInstance(src, nil))
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := src.GetManifest(t.Context(), nil)
	if err != nil || digest.FromBytes(text) != e.Manifest {
		t.Errorf("got the manifest %s, %v; want %s", digest.FromBytes(text), err, e.Manifest)
	}
	config, err := img.ConfigBlob(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var parsed imgspecv1.Image
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	var got []digest.Digest
	for _, l := range img.LayerInfos() {
		blob, _, err := src.GetBlob(t.Context(), imgtypes.BlobInfo{Digest: l.Digest, Size: l.Size}, none.NoCache)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := digest.FromReader(blob)
		if err := errors.Join(err, blob.Close()); err != nil {
			t.Fatal(err)
		}
		got = append(got, sum)
	}
	if diff := cmp.Diff(parsed.RootFS.DiffIDs, got); diff != "" || len(got) != e.Layers {
		t.Errorf("%s: layers (-DiffIDs +got):\n%s", e.Pin, diff)
	}
	return config
}

// A delta, thin or not, is read with its base, and not without.
func TestDeltas(t *testing.T) {
	registry, _ := appliance.Registry(t)
	pins, err := registry.PushSeries(t.Context(), []byte(strings.Repeat("program", 9000)), 2)
	if err != nil {
		t.Fatal(err)
	}
	old, next := appliance.Options(t, sample.SetNamed("s", pins[0]...)), appliance.Options(t, sample.SetNamed("s", pins[1]...))
	whole := next
	whole.Out = filepath.Join(t.TempDir(), "whole")
	appliance.Build(t, old)
	appliance.Build(t, whole)
	want := opened(t, whole.Out)
	for _, thin := range []bool{false, true} {
		o := next
		o.Out = filepath.Join(t.TempDir(), "delta")
		o.From, o.Thin = []string{old.Out}, thin
		if _, err := builder.Delta(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		images := opened(t, o.Out, old.Out)
		for _, pin := range pins[1] {
			if diff := cmp.Diff(viewOf(t, want, pin), viewOf(t, images, pin)); diff != "" {
				t.Errorf("thin %t: %s (-whole store +delta):\n%s", thin, pin, diff)
			}
			dir := filepath.Join(t.TempDir(), "image")
			if _, err := images.Extract(t.Context(), pin, dir, progress.Hooks{}); err != nil {
				t.Errorf("thin %t: %s: %v", thin, pin, err)
			}
		}
		alone, err := open(t, o.Out)
		if err == nil {
			_, err = alone.View(pins[1][0])
		}
		if f := fault.Of(err); !errors.Is(err, look.ErrNoLayer) || f.Exit != fault.Input || !strings.Contains(f.Hint, "--base") {
			t.Errorf("thin %t: without its base, got %v; want %v", thin, err, look.ErrNoLayer)
		}
	}
}

// What a damaged store gives has no name in the end.
func TestExtractOfADamagedStore(t *testing.T) {
	registry, _ := appliance.Registry(t)
	pin, err := registry.PushStack(t.Context(), "site/app", 3000, 400_000)
	if err != nil {
		t.Fatal(err)
	}
	o := appliance.Options(t, sample.Set("worker", pin))
	appliance.Build(t, o)
	store := filepath.Join(o.Out, layout.StoreFile)
	content, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for at := 1000; at < len(content); at += len(content) / 40 {
		damaged := bytes.Clone(content)
		copy(damaged[at:], bytes.Repeat([]byte{0x5a}, 64))
		dir := t.TempDir()
		file, out := filepath.Join(dir, "store.squashfs"), filepath.Join(dir, "image")
		if err := os.WriteFile(file, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		err := extract(t.Context(), file, out)
		entries, readErr := os.ReadDir(dir)
		switch {
		case err == nil: // the program of nodes, the hash tree
		case len(entries) != 1 || readErr != nil:
			t.Errorf("byte %d: got %v and the files %v, want no output", at, err, entries)
		case fault.Of(err) == nil || fault.Of(err).Exit != fault.Damaged:
			t.Errorf("byte %d: got %v, want exit code %d", at, err, fault.Damaged)
		default:
			failed++
		}
	}
	if failed == 0 {
		t.Error("got no error of a damaged store, want some")
	}
}

// A file that a folder lacks is damage, as a wrong one is.
func TestExtractOfAFolderThatLacksAFile(t *testing.T) {
	fixtures.NeedRoot(t)
	registry, _ := appliance.Registry(t)
	pin, err := registry.PushStack(t.Context(), "site/app", 3000)
	if err != nil {
		t.Fatal(err)
	}
	o := appliance.Options(t, sample.Set("worker", pin))
	o.Appliance.Spec.Store.Format = format.Dir
	appliance.Build(t, o)
	files, err := filepath.Glob(filepath.Join(o.Out, "store/overlay/*/diff/data/0-3000"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got the files %v, %v; want one", files, err)
	}
	for name, change := range map[string]func() error{
		"other content": func() error { return os.WriteFile(files[0], bytes.Repeat([]byte("x"), 3000), 0o644) },
		"no file":       func() error { return os.Remove(files[0]) },
		"a pipe": func() error {
			return errors.Join(os.Remove(files[0]), syscall.Mkfifo(files[0], 0o644))
		},
	} {
		if err := errors.Join(fault.Ignore(os.Remove(files[0]), fs.ErrNotExist), os.WriteFile(files[0], nil, 0o644), change()); err != nil {
			t.Fatal(name, err)
		}
		err := extract(t.Context(), o.Out, filepath.Join(t.TempDir(), "image"))
		if f := fault.Of(err); f == nil || f.Exit != fault.Damaged {
			t.Errorf("%s: got %v, want exit code %d", name, err, fault.Damaged)
		}
	}
}

// extract writes the only image of a store.
func extract(ctx context.Context, store, out string) (err error) {
	images, err := look.Open(ctx, []string{store}, signature.Keys{}, progress.Hooks{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, images.Close()) }()
	_, err = images.Extract(ctx, images.Images[0].Pin, out, progress.Hooks{})
	return err
}

// Nothing is written into a folder that has something, or through a link.
func TestExtractIntoAFolder(t *testing.T) {
	registry, _ := appliance.Registry(t)
	pin, err := registry.PushStack(t.Context(), "site/app", 3000)
	if err != nil {
		t.Fatal(err)
	}
	o := appliance.Options(t, sample.Set("worker", pin))
	appliance.Build(t, o)
	store, dir := filepath.Join(o.Out, layout.StoreFile), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err = extract(t.Context(), store, dir)
	if f := fault.Of(err); f == nil || f.Exit != fault.Usage || !strings.Contains(f.Hint, "--oci") {
		t.Errorf("got %v, want that the folder is not empty", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(t.TempDir(), "image")
	if err := extract(ctx, store, out); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after an interrupt, got %v, want no folder", err)
	}
}
