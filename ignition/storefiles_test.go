package ignition_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
)

// Only a file that moves to the store is removed from the configuration.
func TestStoreFiles(t *testing.T) {
	large := strings.Repeat("large ", 2000)
	config := configs(t)["live"]
	config.Snippets = []ignition.Snippet{
		{
			Name: "earlier.bu", Content: []byte("variant: fcos\nversion: 1.4.0\nstorage:\n  files:\n" +
				"  - {path: /etc/twice, contents: {inline: '" + large + large + "'}}\n"),
		},
		{Name: "mine.bu", Content: []byte("variant: fcos\nversion: 1.4.0\nstorage:\n  files:\n" +
			"  - {path: /etc/large, mode: 0750, user: {name: core}, group: {id: 7}, contents: {inline: '" + large + "'}}\n" +
			"  - {path: /etc/twice, append: [{inline: more}]}\n" + // files of two snippets stay together
			"  - {path: '/etc/a name', contents: {inline: '" + large + large + "'}}\n" + // a path that a unit cannot have
			"  - {path: /etc/small, contents: {inline: small}}\n")},
	}
	all, err := config.StoreFileCandidates()
	if err != nil {
		t.Fatal(err)
	}
	want := provision.File{Path: "/etc/large", Mode: 0o750, User: "core", Group: "7", Content: []byte(large)}
	if diff := cmp.Diff(want, all[0]); diff != "" {
		t.Fatalf("the largest (-want +got):\n%s", diff)
	}
	config.StoreFiles = all[:1]
	bu, err := ignition.Render(config)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(bu, []byte("/etc/large\"")) || !bytes.Contains(bu, []byte("/etc/small")) ||
		!bytes.Contains(bu, []byte("/etc/a name")) {
		t.Errorf("got this config, want /etc/small and /etc/a name in it, but not /etc/large:\n%s", bu)
	}
	if !bytes.Contains(bu, []byte(`\"version\": \"3.3.0\"`)) && !bytes.Contains(bu, []byte(`"version": "3.3.0"`)) {
		t.Errorf("got another version of the snippet, want 3.3.0:\n%s", bu)
	}
	ign, err := ignition.Translate(bu)
	if err != nil {
		t.Fatal(err)
	}
	fixtures.NeedRoot(t)
	root, file := t.TempDir(), filepath.Join(t.TempDir(), "config.ign")
	prepare(t, root)
	if err := os.WriteFile(file, ign, 0o644); err != nil {
		t.Fatal(err)
	}
	crio.Ignite(t, file, root)
	unit, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/pinbox-files.service"))
	if err != nil {
		t.Fatal(err)
	}
	fixtures.Golden(t, "pinbox-files.service", unit)
}

// Files that the node fetches do not move to the store.
func TestRemoteFiles(t *testing.T) {
	config := ignition.Config{
		Snippets: []ignition.Snippet{
			{
				Name: "mine.bu", Content: []byte("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n" +
					"  - {path: /etc/remote, contents: {source: 'https://example.com/x'}}\n"),
			},
		},
	}
	if all, err := config.StoreFileCandidates(); err != nil || len(all) > 0 {
		t.Errorf("got %+v, %v; want no files", all, err)
	}
}
