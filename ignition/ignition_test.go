package ignition_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/ignition"
	runtimecrio "github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

const sets = `apiVersion: machineconfiguration.openshift.io/v1
kind: PinnedImageSet
metadata:
  name: worker-pinned-images
  labels:
    machineconfiguration.openshift.io/role: worker
spec:
  pinnedImages:
  - name: quay.io/openshift-release-dev/ocp-release@sha256:513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e
  - name: quay.io/openshift-release-dev/ocp-release@sha256:61eae2d261e54d1b8a0e05f6b5326228b00468364563745eed88460af04f909b
---
apiVersion: machineconfiguration.openshift.io/v1
kind: PinnedImageSet
metadata:
  name: every-node
spec:
  pinnedImages:
  - name: quay.io/openshift-release-dev/ocp-release@sha256:513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e
`

// configs returns the configurations of the golden files.
func configs(t *testing.T) map[string]ignition.Config {
	t.Helper()
	sets, _, err := pinset.DecodeSets(strings.NewReader(sets), "sets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tree := verity.Tree{Root: digest.SHA256.FromString("root"), Blocks: 90_000}
	program := pinset.Program{Digest: digest.FromString("pinbox-node")}
	snippet := "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n  - path: /etc/hostname\n    contents:\n" +
		"      inline: ship-7\n"
	return map[string]ignition.Config{
		"live": {Node: provision.Node{Release: pinset.ReleaseID{Name: "factory-12", Number: 7}, Sets: sets, Store: provision.Store{
			SELinuxContext: provision.DefaultSELinuxContext, Digest: digest.FromString("store"), Tree: tree, Program: program,
		}, KeepPrevious: 1}},
		"installed": {
			Node: provision.Node{Sets: sets, Store: provision.Store{
				PartitionLabel: "pinbox-store", Tree: tree, Program: program, Verity: layout.VerityRequire,
			}, InternalRepair: true, KeepPrevious: 1,
				AutoAttach: true, ImageVolumes: layout.ImageVolumesCopy,
			},
			SSHKeys:  []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBxSYDrPdxVLZ1qMTCYAK0gMMbmLuBnLvxBLDBdLPLvb me@ship"},
			Snippets: []ignition.Snippet{{Name: "hostname.bu", Content: []byte(snippet)}},
		},
		"fetched": {Node: provision.Node{Sets: sets, KeepPrevious: 1, Store: provision.Store{
			URL: "http://boot.lab:8080/pinbox/store.squashfs", Size: 360_000_000, Digest: digest.FromString("store"), Tree: tree,
			Program: program,
		}}},
		"folder": {Node: provision.Node{Sets: sets, Store: provision.Store{Folder: layout.StoreFolder, Program: program}}},
		"medium": {Node: provision.Node{
			Sets: sets, Store: provision.Store{VolumeLabel: "PINBOX", Tree: tree, Program: program, Verity: layout.VerityOff},
			PullSecret: []byte(`{"auths":{"quay.io":{"auth":"bWU6c2VjcmV0"}}}` + "\n"),
			Registries: []byte("[[registry]]\n  location = \"quay.io\"\n  [[registry.mirror]]\n" +
				"    location = \"mirror.lab:8443/quay\"\n    pull-from-mirror = \"digest-only\"\n"),
		}},
	}
}

// rendered returns the Butane config of each configuration, of an installer, and beside another one.
func rendered(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for name, config := range configs(t) {
		bu, err := ignition.Render(config)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = bu
	}
	installed, err := ignition.Translate(all["installed"])
	if err != nil {
		t.Fatal(err)
	}
	all["installer"], err = ignition.Installer{
		Disk: "/dev/disk/by-path/pci-0000:00:04.0", Config: installed, CopyNetwork: true,
		Store:       configs(t)["live"].Store,
		AppendKargs: []string{"console=ttyS0"}, DeleteKargs: []string{"quiet"}, SSHKeys: configs(t)["installed"].SSHKeys,
	}.Render()
	if err != nil {
		t.Fatal(err)
	}
	all["agent"], err = ignition.Installer{Disk: "/dev/sda", Store: configs(t)["live"].Store}.Render()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestConfigGolden(t *testing.T) {
	for name, bu := range rendered(t) {
		t.Run(name, func(t *testing.T) {
			fixtures.Golden(t, name+".bu", bu)
			ign, err := ignition.Translate(bu) // it runs Ignition's parser too
			if err != nil {
				t.Fatal(err)
			}
			fixtures.Golden(t, name+".ign", ign)
			config, ok := configs(t)[name]
			if !ok {
				return
			}
			files, err := ignition.Files(ign)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(files[runtimecrio.PinnedImagesPath], runtimecrio.RenderPinned(pinset.Union(config.Sets...))) {
				t.Errorf("got the pins %q, want those of %v", files[runtimecrio.PinnedImagesPath], config.Sets)
			}
			node := layout.NodeConfig{
				ReleaseID: config.Release, Store: config.Store.Digest, KeepPrevious: config.KeepPrevious,
				SELinuxContext: config.Store.SELinuxContext, Verity: config.Store.Verity,
				ImageVolumes: config.ImageVolumes, Program: config.Store.Program,
			}
			if got := files[layout.NodeConfigPath]; !bytes.Equal(got, node.Render()) {
				t.Errorf("got the node's configuration %q, want %q", got, node.Render())
			}
			fixtures.Golden(t, name+"-boot.sh", files[layout.BootPath])
			if rules := files[provision.UdevRulesPath]; (rules != nil) != config.AutoAttach {
				t.Errorf("got the udev rules %q, want some: %v", rules, config.AutoAttach)
			}
			if secret := files[runtimecrio.PullSecretPath]; !bytes.Equal(secret, config.PullSecret) {
				t.Errorf("got the pull secret %q, want %q", secret, config.PullSecret)
			}
			if dropin := files[provision.RegistriesPath]; !bytes.Equal(dropin, config.Registries) {
				t.Errorf("got the mirrors %q, want %q", dropin, config.Registries)
			}
		})
	}
}

// systemd-analyze accepts the units that the real Ignition writes, together with units of a distribution.
func TestUnitsGolden(t *testing.T) {
	for name, bu := range rendered(t) {
		ign, err := ignition.Translate(bu)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "config.ign")
		if err := os.WriteFile(file, ign, 0o644); err != nil {
			t.Fatal(err)
		}
		fixtures.NeedRoot(t)
		root := t.TempDir()
		prepare(t, root)
		crio.Ignite(t, file, root)
		verify := []string{"verify", "--root=" + root, "--man=no", "--recursive-errors=yes", "--generators=no", "crio.service"}
		units, err := filepath.Glob(filepath.Join(root, "etc/systemd/system/*.*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range units {
			base := filepath.Base(unit)
			switch filepath.Ext(base) {
			case ".wants", ".requires":
				continue
			case ".d":
				goldenDropins(t, name, unit)
				continue
			}
			verify = append(verify, strings.Replace(base, "@.", "@sr0.", 1))
			got, err := os.ReadFile(unit)
			if err != nil {
				t.Fatal(err)
			}
			fixtures.Golden(t, name+"-"+base, got)
		}
		if out, err := exec.Command(fixtures.Need(t, "systemd-analyze"), verify...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: got %v from systemd-analyze verify, want no error and no output\n%s", name, err, out)
		}
	}
}

// goldenDropins compares the drop-ins in a folder. The sandbox is the same in each configuration.
func goldenDropins(t *testing.T, config, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		name := config + "-" + filepath.Base(folder) + "-" + e.Name()
		if e.Name() == fixtures.SandboxDropin {
			name = e.Name()
		}
		fixtures.Golden(t, strings.ReplaceAll(name, `\x2d`, "-"), got) // a module has no names with a backslash
	}
}

// prepare makes the files of a distribution that the units need.
func prepare(t *testing.T, root string) {
	t.Helper()
	for name, content := range map[string]string{
		"etc/passwd":                "root:x:0:0:root:/root:/bin/sh\ncore:x:1000:1000::/home/core:/bin/sh\n",
		"etc/group":                 "root:x:0:\ncore:x:1000:\n",
		"bin/sh":                    "#!/bin/sh\n",
		"usr/bin/install":           "#!/bin/sh\n",
		"usr/bin/crio":              "#!/bin/sh\n",
		"usr/bin/sync":              "#!/bin/sh\n",
		"usr/bin/mkdir":             "#!/bin/sh\n",
		"usr/bin/touch":             "#!/bin/sh\n",
		"usr/bin/udevadm":           "#!/bin/sh\n",
		"usr/bin/env":               "#!/bin/sh\n",
		"usr/local/bin/pinbox-node": "#!/bin/sh\n",
		"usr/lib/systemd/system/crio.service": "[Unit]\nDescription=CRI-O\nWants=network-online.target\n" +
			"After=network-online.target\n[Service]\nType=notify\nExecStart=/usr/bin/crio\n[Install]\n" +
			"WantedBy=multi-user.target\n",
		"usr/lib/systemd/system/coreos-installer.service": "[Unit]\nBefore=coreos-installer.target\n[Service]\n" +
			"Type=oneshot\nExecStart=/usr/bin/install\n",
		"usr/lib/systemd/system/coreos-installer-pre.target": "[Unit]\nDescription=Before\n",
		"usr/lib/systemd/system/coreos-installer.target": "[Unit]\nRequires=coreos-installer-pre.target " +
			"coreos-installer.service\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fixtures.Run(t, "sh", "-c", "chmod 644 "+filepath.Join(root, "usr/lib/systemd/system/*"))
	// Ignition writes a user's keys as that user, who needs access to the folder.
	home := filepath.Join(root, "home/core")
	if err := errors.Join(os.Chmod(filepath.Dir(root), 0o755), os.MkdirAll(home, 0o755),
		os.Chown(home, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "sh", "-c", "cp /usr/lib/systemd/system/*.target "+filepath.Join(root, "usr/lib/systemd/system"))
}

func TestRefusedSnippets(t *testing.T) {
	for name, content := range map[string]string{
		"misspelt field": "variant: fcos\nversion: 1.5.0\nstorge: {}\n",
		"no variant":     "storage: {}\n",
		"not YAML":       "a: [",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ignition.Render(ignition.Config{Snippets: []ignition.Snippet{{Name: "mine.bu", Content: []byte(content)}}})
			if !errors.Is(err, ignition.ErrButane) || !strings.Contains(err.Error(), "mine.bu") {
				t.Errorf("got %v, want %v with mine.bu", err, ignition.ErrButane)
			}
		})
	}
}

// The newest version of each variant is translated, and a later one is an error that names it.
func TestVersionsOfButane(t *testing.T) {
	metadata := "metadata: {name: x, labels: {machineconfiguration.openshift.io/role: worker}}\n"
	for name, test := range map[string]struct{ variant, version, want string }{ // the end of the error; "" for none
		"openshift":             {"openshift", "4.22.0", ""},
		"openshift, later":      {"openshift", "4.23.0", "variant openshift has version 4.23.0; this pinbox knows it up to 4.22.0"},
		"fcos":                  {"fcos", "1.7.0", ""},
		"fcos, later":           {"fcos", "1.8.0", "variant fcos has version 1.8.0; this pinbox knows it up to 1.7.0"},
		"fcos, experimental":    {"fcos", "1.8.0-experimental", "it has version 3.7.0-experimental, and this pinbox knows 3.0 to 3.6"},
		"flatcar":               {"flatcar", "1.1.0", ""},
		"flatcar, later":        {"flatcar", "1.2.0", "up to 1.1.0"},
		"r4e":                   {"r4e", "1.1.0", ""},
		"r4e, later":            {"r4e", "1.2.0", "up to 1.1.0"},
		"fiot":                  {"fiot", "1.0.0", ""},
		"fiot, later":           {"fiot", "1.1.0", "up to 1.0.0"},
		"a variant that is new": {"bazzite", "1.0.0", "this pinbox knows fcos, fiot, flatcar, openshift, r4e"},
	} {
		t.Run(name, func(t *testing.T) {
			bu := "variant: " + test.variant + "\nversion: " + test.version + "\n"
			if test.variant == "openshift" {
				bu += metadata
			}
			_, err := ignition.Translate([]byte(bu))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasSuffix(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// A merged config overrides the config that it is merged into, so a snippet with a file or unit of pinbox is
// refused.
func TestSnippetsOfPinboxsFiles(t *testing.T) {
	for name, content := range map[string]string{
		"/etc/crio/crio.conf.d/50-pinned-images": "storage: {files: [{path: /etc/crio/crio.conf.d/50-pinned-images, " +
			"contents: {inline: x}}]}",
		"/var/lib/pinbox/stores/3": "storage: {links: [{path: /var/lib/pinbox/stores/3, target: /x}]}",
		"pinbox-node.service":      "systemd: {units: [{name: pinbox-node.service, enabled: false}]}",
		"pinbox-mount.service":     "systemd: {units: [{name: pinbox-mount.service, mask: true}]}",
		"pinbox-attach@.service":   "systemd: {units: [{name: pinbox-attach@.service, mask: true}]}",
		provision.UdevRulesPath: "storage: {files: [{path: " + provision.UdevRulesPath +
			", contents: {inline: x}}]}",
		layout.NodeConfigPath: "storage: {files: [{path: " + layout.NodeConfigPath +
			", contents: {inline: x}}]}",
		"pinbox-firstboot.service": "systemd: {units: [{name: pinbox-firstboot.service, enabled: false}]}",
		"pinbox-files.service":     "systemd: {units: [{name: pinbox-files.service, enabled: false}]}",
		"run-media-pinbox.mount":   "systemd: {units: [{name: run-media-pinbox.mount, enabled: false}]}",
		provision.RegistriesPath: "storage: {files: [{path: " + provision.RegistriesPath +
			", contents: {inline: x}}]}",
		runtimecrio.PullSecretPath: "storage: {files: [{path: " + runtimecrio.PullSecretPath +
			", contents: {inline: x}}]}",
		"10-pinbox-stores.conf": "systemd: {units: [{name: crio.service, dropins: [{name: " +
			"10-pinbox-stores.conf, contents: '[Unit]'}]}]}",
	} {
		t.Run(name, func(t *testing.T) {
			snippet := ignition.Snippet{Name: "mine.bu", Content: []byte("variant: fcos\nversion: 1.5.0\n" + content + "\n")}
			_, _, err := ignition.Config{
				Snippets: []ignition.Snippet{snippet}, Node: provision.Node{Registries: []byte("# mirrors"), PullSecret: []byte("{}")},
			}.Translate()
			if !errors.Is(err, ignition.ErrConflict) || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want %v with %s", err, ignition.ErrConflict, name)
			}
		})
	}
}

// Snippets may be of the variant openshift, of other versions, and embed files of their folder.
func TestSnippetsOfOtherVariants(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "motd"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"openshift": "variant: openshift\nversion: 4.18.0\nmetadata:\n  name: x\n" +
			"  labels: {machineconfiguration.openshift.io/role: worker}\nstorage: {files: [{path: /etc/motd, contents: " +
			"{inline: hello}}]}\n",
		// Butane warns about a merged config of another version.
		"earlier": "variant: fcos\nversion: 1.4.0\nstorage: {files: [{path: /etc/motd, contents: {inline: hello}}]}\n",
		"later":   "variant: fcos\nversion: 1.6.0\nstorage: {files: [{path: /etc/motd, contents: {inline: hello}}]}\n",
		"local":   "variant: fcos\nversion: 1.5.0\nstorage: {files: [{path: /etc/motd, contents: {local: motd}}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			bu, err := ignition.Render(ignition.Config{
				Snippets: []ignition.Snippet{{Name: name, Content: []byte(content), Dir: dir}},
			})
			if err != nil {
				t.Fatalf("got %v, want no error", err)
			}
			if _, err := ignition.Translate(bu); err != nil || !bytes.Contains(bu, []byte("data:,hello")) {
				t.Errorf("got %v, want no error and the content in:\n%s", err, bu)
			}
		})
	}
}

// A snippet that is given twice is merged once, as Ignition refuses to merge a config twice.
func TestTheSameSnippetTwice(t *testing.T) {
	snippets := configs(t)["installed"].Snippets
	bu, err := ignition.Render(ignition.Config{Snippets: append(snippets, snippets...)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ignition.Translate(bu); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}
