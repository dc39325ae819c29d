package spec_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/spec"
)

// Options that a store of another format cannot have are refused when the file is read.
func TestOptionsOfFormats(t *testing.T) {
	const head = "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata:\n  name: a\nspec:\n  sources:\n" +
		"  - pinnedImageSets: [a.yaml]\n"
	for rest, want := range map[string]string{
		"  store: {format: dir}\n":                                                       "",
		"  store: {format: dir}\n  node: {store: {path: /srv/store}}\n":                  "",
		"  store: {format: squashfs, compression: gzip}\n":                               "",
		"  store: {format: dir}\n  node: {store: {path: /var/lib/containers/storage}}\n": "",
		"  store: {format: zip}\n":                                                       `spec.store.format is "zip"; it must be one of squashfs`,
		"  store: {format: dir, compression: gzip}\n": "spec.store.compression " +
			"requires spec.store.format squashfs; it is dir",
		"  store: {compressionLevel: best}\n":                    "",
		"  store: {compression: gzip, compressionLevel: fast}\n": "",
		"  store: {compressionLevel: 3}\n":                       "not fast, default or best",
		"  store: {compression: none, compressionLevel: fast}\n": "spec.store.compressionLevel " +
			"does not go with spec.store.compression none",
		"  store: {format: dir, compressionLevel: fast}\n": "spec.store.compressionLevel " +
			"requires spec.store.format squashfs; it is dir",
		"  store: {format: dir, blockSize: 4096}\n": "spec.store.blockSize " +
			"requires",
		"  store: {format: dir}\n  iso: {base: a.iso}\n": "spec.iso.base requires " +
			"spec.store.format squashfs; it is dir",
		"  store: {format: dir}\n  iso: {base: a.iso, mode: install, installDevice: /dev/sda}\n": "spec.iso.mode install " +
			"requires",
		"  store: {format: dir}\n  node: {store: {volumeLabel: PINBOX}}\n": "spec.node.store.volumeLabel requires",
		"  store: {format: dir}\n  node: {store: {partitionLabel: pinbox-store}}\n": "spec.node.store.partitionLabel " +
			"requires",
		// of stores that are attached later
		"  store: {format: dir}\n  node: {selinuxContext: \"a:b:c:s0\"}\n":            "",
		"  store: {format: dir}\n  node: {store: {path: /var/lib/pinbox/stores/3}}\n": "where other stores are mounted",
		"  store: {format: dir}\n  node: {store: {path: \"/a b\"}}\n":                 "letters, digits",
	} {
		t.Run(rest, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "appliance.yaml")
			if err := os.WriteFile(file, []byte(head+rest), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := spec.Read(file)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// A plain build needs no ISO: its node has the store as a file. A bug was that it expected it on an ISO that nobody
// made.
func TestWhereANodeFindsItsStore(t *testing.T) {
	file := spec.Node{Store: spec.NodeStore{Path: "/srv/store.squashfs"}}
	for name, test := range map[string]struct {
		spec spec.Spec
		want string
	}{
		"nothing said": {spec.Spec{}, "/var/lib/pinbox/store.squashfs"},
		"a path":       {spec.Spec{Node: file}, "/srv/store.squashfs"},
		"an ISO":       {spec.Spec{ISO: spec.ISO{Base: "x.iso"}}, "/run/media/iso/pinbox/store.squashfs"},
		"an installer": {spec.Spec{ISO: spec.ISO{Base: "x.iso", Mode: spec.ModeInstall}}, "/dev/disk/by-partlabel/pinbox-store"},
		"OpenShift":    {spec.Spec{OpenShift: &spec.OpenShift{Version: "4.20"}}, "/dev/disk/by-partlabel/pinbox-store"},
		"a file there": {spec.Spec{Node: file, OpenShift: &spec.OpenShift{Version: "4.20"}}, "/srv/store.squashfs"},
		"a folder":     {spec.Spec{Store: spec.Store{Format: "dir"}}, "/var/lib/pinbox/store"},
	} {
		test.spec.Store.Format = cmp.Or(test.spec.Store.Format, "squashfs")
		if got := test.spec.Config(nil, nil).Store.NodePath(); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
