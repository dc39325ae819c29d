package builder_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
)

// noise returns a text that cannot be compressed much.
func noise(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// butane writes a snippet with one file.
func butane(t *testing.T, path, content string) string {
	t.Helper()
	dir := t.TempDir()
	snippet := fmt.Sprintf("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: %q\n"+
		"    contents: {local: content}\n", path)
	for name, text := range map[string]string{"content": content, "snippet.bu": snippet} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "snippet.bu")
}

// verified verifies a folder, a medium or an ISO.
func verified(t *testing.T, path string) {
	t.Helper()
	if _, err := verify.Release(t.Context(), path, verify.Options{}); err != nil {
		t.Errorf("got %v from verify, want no error", err)
	}
}

// extracted returns the Ignition config of an ISO.
func extracted(t *testing.T, image string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := artifact.Extract(t.Context(), image, artifact.IgnitionFile, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The live system has a config of its own, which contains the config of the node.
func TestISOThatInstalls(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.ISO = spec.ISO{
		Base: keyfiles(t, fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...)), Mode: "install", InstallDevice: "/dev/sda",
		InstalledKernelArguments: spec.InstalledKernelArguments{Append: []string{"console=ttyS0"}, Delete: []string{"quiet"}},
	}
	r := build(t, o)
	if r.Installs != "/dev/sda" || r.NodeStore != "/dev/disk/by-partlabel/pinbox-store" {
		t.Errorf("got %+v, want an installation on /dev/sda with the store on a partition", r)
	}
	verified(t, r.Out)
	verified(t, r.ISO)
	live, installed := read(t, r.Out, artifact.LiveIgnitionFile), read(t, r.Out, artifact.IgnitionFile)
	if !bytes.Equal(extracted(t, r.ISO), live) {
		t.Error("got another config in the ISO, want " + artifact.LiveIgnitionFile)
	}
	files, err := ignition.Files(live)
	if err != nil || !bytes.Equal(files["/etc/coreos/dest.ign"], installed) {
		t.Errorf("got another config for the installed system, %v; want %s", err, artifact.IgnitionFile)
	}
	var config map[string]any
	if err := yaml.Unmarshal(files["/etc/coreos/installer.d/0000-pinbox.yaml"], &config); err != nil {
		t.Fatal(err)
	}
	want := "map[append-karg:[console=ttyS0] copy-network:true delete-karg:[quiet] dest-device:/dev/sda " +
		"ignition-file:/etc/coreos/dest.ign offline:true]"
	if got := fmt.Sprint(config); got != want {
		t.Errorf("got the installer's configuration %s, want %s", got, want)
	}
}

// keyfiles adds a keyfile to the Ignition area of an ISO, as `coreos-installer iso network embed` does.
func keyfiles(t *testing.T, base string) string {
	t.Helper()
	dir := t.TempDir()
	name := "etc/coreos-firstboot-network/eth0.nmconnection"
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("[connection]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "sh", "-c", "cd "+dir+" && find etc | cpio --quiet -o -H newc | xz --check=crc32 >area")
	image, f, err := iso.OpenFile(base)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	area, err := image.IgnitionArea()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(base, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := out.WriteAt(read(t, dir, "area"), area.Offset); err != nil {
		t.Fatal(err)
	}
	return base
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// If the store is on another medium, the ISO has no store.
func TestISOWithoutAStore(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.ISO.Base = fixtures.LiveISO(t)
	o.Appliance.Spec.Node.Store.VolumeLabel = "PINBOX_2"
	r := build(t, o)
	verified(t, r.ISO)
	if err := artifact.Extract(t.Context(), r.ISO, layout.MediumStore, new(bytes.Buffer)); !errors.Is(err, iso9660.ErrNotFound) {
		t.Errorf("got %v for the store of the ISO, want %v", err, iso9660.ErrNotFound)
	}
	medium := filepath.Join(t.TempDir(), "medium.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: r.Out, Out: medium}); err != nil {
		t.Fatal(err)
	}
	verified(t, medium)
	if label := fixtures.Run(t, "blkid", "-o", "value", "-s", "LABEL", medium); label != "PINBOX_2\n" {
		t.Errorf("got the label %q of the medium, want PINBOX_2", label)
	}
	var store bytes.Buffer
	if err := artifact.Extract(t.Context(), medium, layout.MediumStore, &store); err != nil ||
		!bytes.Equal(store.Bytes(), read(t, r.Out, layout.StoreFile)) {
		t.Errorf("got another store on the medium, %v; want %s", err, layout.StoreFile)
	}
}

// Only the largest files are moved from the config to the store.
func TestLargeFilesGoToTheStore(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.ISO.Base = fixtures.LiveISO(t)
	large, small := noise(100_000), noise(10_000)
	o.Appliance.Spec.Ignition.Butane = []string{butane(t, "/etc/large", large), butane(t, "/etc/small", small)}
	r := build(t, o)
	if n := len(r.Warnings); n == 0 || !strings.HasSuffix(r.Warnings[n-1], "before CRI-O starts: /etc/large") {
		t.Errorf("got the warnings %q, want the last to list only /etc/large", r.Warnings)
	}
	verified(t, r.Out)
	verified(t, r.ISO)
	if got := fixtures.Run(t, "unsquashfs", "-cat", filepath.Join(r.Out, layout.StoreFile),
		"pinbox/files/etc/large"); got != large {
		t.Errorf("got %d bytes of the file in the store, want %d", len(got), len(large))
	}
}
