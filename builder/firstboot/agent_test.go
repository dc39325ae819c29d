package firstboot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// agentISO makes an ISO as `openshift-install agent create image` does, with a config that has a file of so many
// bytes that gzip cannot make smaller, and the user's manifests.
func agentISO(t *testing.T, size int, manifests ...string) (name string, config []byte) {
	t.Helper()
	random := make([]byte, size*3/4)
	if _, err := rand.NewChaCha8([32]byte{}).Read(random); err != nil {
		t.Fatal(err)
	}
	extra := ""
	for n, manifest := range manifests {
		extra += fmt.Sprintf(`{"path":"/etc/assisted/extra-manifests/%d.yaml","contents":{"source":"data:;base64,%s"}},`, n,
			base64.StdEncoding.EncodeToString([]byte(manifest)))
	}
	config = []byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[` + extra + `{"path":"/usr/local/bin/agent","mode":493,` +
		`"contents":{"source":"data:;base64,` + base64.StdEncoding.EncodeToString(random) + `"}}]},` +
		`"systemd":{"units":[{"name":"agent.service","enabled":true,"contents":"[Service]\nExecStart=/usr/local/bin/agent\n"}]}}`)
	dir := t.TempDir()
	file := filepath.Join(dir, "agent.ign")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "agent.iso")
	fixtures.Run(t, fixtures.Peer(t, "agentiso"), fixtures.LiveISO(t, "-rock", "-iso-level", "3", "-m", "efiboot.img"), file, name)
	return name, config
}

// An ISO of the agent-based installer gets a store and our config beside its own, in an area that its installer
// has made larger, and reset gives it back byte for byte.
func TestAgentISO(t *testing.T) {
	for name, size := range map[string]int{"as the base has it": 20_000, "larger": 300_000} {
		t.Run(name, func(t *testing.T) {
			base, theirs := agentISO(t, size)
			a := appliance(t, func(s *spec.Spec) {
				s.ISO = spec.ISO{Base: base, Mode: spec.ModeAgent, InstallDevice: "/dev/sda", Existing: spec.ExistingMerge}
			})
			files, err := configureWith(t, a, nil, nil, pinset.Program{})
			if err != nil {
				t.Fatal(err)
			}
			if !files.Private() {
				t.Error("got a public config, want a private one: theirs may have secrets")
			}
			edit := files.LiveISO().Edit
			edit.Additions = []iso.Addition{{Name: "store.squashfs", Size: 5, Content: strings.NewReader("store")}}
			out, again := filepath.Join(t.TempDir(), "out.iso"), filepath.Join(t.TempDir(), "again.iso")
			if err := files.LiveISO().Base.Apply(t.Context(), out, edit); err != nil {
				t.Fatal(err)
			}
			image, f, err := iso.OpenFile(out)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if area, err := image.IgnitionArea(); err != nil || (area.Length > 65536) != (size > 65536) {
				t.Errorf("got an area of %d bytes, %v, want the 65,536 of the base, or more for the larger config", area.Length, err)
			}
			got, err := image.Ignition()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"agent.service", "/usr/local/bin/agent", "pinbox-save-store.service"} {
				if !bytes.Contains(got, []byte(want)) {
					t.Errorf("got no %s in the config, want it", want)
				}
			}
			if bytes.Contains(got, []byte("installer.d")) {
				t.Error("got a configuration of coreos-installer, want none: the agent installs")
			}
			if err := restore(t, out, again); err != nil {
				t.Fatal(err)
			}
			if sum(t, again) != sum(t, base) {
				t.Error("reset: got another ISO, want the agent's")
			}
			image, f, err = iso.OpenFile(again)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := image.Ignition(); err != nil || !bytes.Equal(got, theirs) {
				t.Errorf("reset: got a config of %d bytes, %v, want that of the agent", len(got), err)
			}
		})
	}
}

// The MachineConfigs in such an ISO are compared with those of the appliance, and with the disk of the store.
func TestAgentISOWithManifests(t *testing.T) {
	object := func(pool, config string) string {
		return "kind: MachineConfig\nmetadata:\n  name: 98-site\n  labels: {machineconfiguration.openshift.io/role: " + pool +
			"}\nspec: {config: {ignition: {version: 3.2.0}, " + config + "}}\n"
	}
	partition := func(number int) string {
		return fmt.Sprintf("storage: {disks: [{device: /dev/sda, partitions: [{number: %d, label: var, startMiB: 25000, sizeMiB: 0}]}]}",
			number)
	}
	for name, test := range map[string]struct {
		manifest string
		want     error
	}{
		"/var on partition 5":     {object("worker", partition(5)), nil},
		"/var on the store":       {object("worker", partition(128)), ignition.ErrDisk},
		"a unit of the appliance": {object("master", "systemd: {units: [{name: pinbox-node.service, mask: true}]}"), ignition.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			base, _ := agentISO(t, 1000, test.manifest)
			a := appliance(t, func(s *spec.Spec) {
				s.ISO = spec.ISO{Base: base, Mode: spec.ModeAgent, InstallDevice: "/dev/sda", Existing: spec.ExistingMerge}
				s.OpenShift = &spec.OpenShift{Version: "4.20"}
			})
			_, err := configureWith(t, a, nil, nil, pinset.Program{Digest: digest.FromString("pinbox-node")})
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), base+": 0.yaml: MachineConfig 98-site: ") {
				t.Errorf("got %v, want %v with the ISO and the object", err, test.want)
			}
		})
	}
}

func sum(t *testing.T, name string) [32]byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(content)
}

// The cluster configures the nodes of an agent. A bug was that the user's Butane files were left out without a word.
func TestFilesOfTheUserForAnAgent(t *testing.T) {
	base, _ := agentISO(t, 1000, "")
	snippet := filepath.Join(t.TempDir(), "site.bu")
	if err := os.WriteFile(snippet, []byte("variant: fcos\nversion: 1.5.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	files, err := configured(t, func(s *spec.Spec) {
		s.ISO = spec.ISO{Base: base, Mode: spec.ModeAgent, InstallDevice: "/dev/sda", Existing: spec.ExistingMerge}
		s.Ignition.Butane = []string{snippet}
	})
	if err != nil || !strings.Contains(strings.Join(files.Warnings(), "\n"), "spec.ignition.butane") {
		t.Errorf("got %v and the warnings %q, want one of spec.ignition.butane", err, files.Warnings())
	}
}

// The system of an agent has servers, and that of another base is offline as its node is.
func TestFilesThatABaseFetches(t *testing.T) {
	theirs := []byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/a","contents":{"source":"https://boot.lab/a"}}]}}`)
	for mode, want := range map[string]error{
		spec.ModeLive: ignition.ErrFetch, spec.ModeInstall: ignition.ErrFetch, spec.ModeAgent: nil,
	} {
		t.Run(mode, func(t *testing.T) {
			base := fixtures.LiveISO(t)
			fill(t, base, theirs, "gzip")
			files, err := configured(t, func(s *spec.Spec) {
				s.ISO = spec.ISO{Base: base, Mode: mode, Existing: spec.ExistingMerge}
				if s.ISO.ToDisk() {
					s.ISO.InstallDevice = "/dev/sda"
				}
			})
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			if err == nil && !strings.Contains(strings.Join(files.Warnings(), "\n"), "/etc/a is fetched from https://boot.lab/a") {
				t.Errorf("got the warnings %q, want one of /etc/a", files.Warnings())
			}
		})
	}
}

// Configs of the system in the Ignition area stay there, whatever happens to the ISO's own, and are compared, too.
func TestConfigsOfTheSystem(t *testing.T) {
	link := `"storage":{"links":[{"path":"/etc/crio","target":"/srv"}]}`
	for name, c := range map[string]struct {
		file, config string
		want         error
	}{
		"link above":       {"usr/lib/ignition/base.d/10-site.ign", link, ignition.ErrMerge},
		"of this platform": {"usr/lib/ignition/base.platform.d/metal/10-site.ign", link, ignition.ErrMerge},
		"of another one":   {"usr/lib/ignition/base.platform.d/aws/10-site.ign", link, nil},
		"arguments":        {"usr/lib/ignition/base.d/10-site.ign", `"kernelArguments":{"shouldExist":["quiet"]}`, ignition.ErrLive},
		"another file":     {"usr/lib/ignition/base.d/10-site.ign", `"storage":{"files":[{"path":"/etc/site"}]}`, nil},
	} {
		for _, existing := range []string{"", spec.ExistingReplace, spec.ExistingMerge} {
			t.Run(name+", "+existing, func(t *testing.T) {
				base := fixtures.LiveISO(t, "-rock")
				fillWith(t, base, c.file, []byte(`{"ignition":{"version":"3.3.0"},`+c.config+`}`), "gzip")
				_, err := configureWith(t, appliance(t, func(s *spec.Spec) { s.ISO = spec.ISO{Base: base, Existing: existing} }), nil, nil,
					pinset.Program{})
				if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), base+": "+c.file+": ") {
					t.Errorf("got %v, want %v with %s", err, c.want, c.file)
				}
			})
		}
	}
}

// The area may be packed by another program, and its description have a short name: IGNINFO.JSO.
func TestMergeWithAnyArea(t *testing.T) {
	theirs := []byte(`{"ignition":{"version":"3.1.0"},"storage":{"files":[{"path":"/etc/theirs","contents":{"source":"data:,x"}}]}}`)
	for _, pack := range []string{"cat", "gzip", "xz --check=crc32", "zstd"} {
		t.Run(pack, func(t *testing.T) {
			base := fixtures.LiveISO(t, "-iso-level", "1", "--norock")
			if names := fixtures.Run(t, "isoinfo", "-f", "-i", base); !strings.Contains(names, "/COREOS/IGNINFO.JSO;1\n") {
				t.Fatalf("got the names\n%s\nwant IGNINFO.JSO", names)
			}
			fill(t, base, theirs, pack)
			a := appliance(t, func(s *spec.Spec) { s.ISO = spec.ISO{Base: base, Existing: spec.ExistingMerge} })
			files, err := configureWith(t, a, nil, nil, pinset.Program{})
			if err != nil {
				t.Fatal(err)
			}
			merged := files.Texts()["merged.ign"]
			if got := files.LiveISO().Edit.Ignition; !bytes.Equal(got, merged.Content) || merged.Perm != 0o600 ||
				!bytes.Contains(got, []byte("/etc/theirs")) || !bytes.Contains(got, []byte("pinbox-node.service")) {
				t.Errorf("got the config\n%s\nin the ISO, want merged.ign of mode 0600 (it has %o) with both configs", got, merged.Perm)
			}
		})
	}
}

// fill writes a config into the area of an ISO, packed by a program.
func fill(t *testing.T, base string, config []byte, pack string) {
	t.Helper()
	fillWith(t, base, "config.ign", config, pack)
}

// fillWith writes an archive with one file.
func fillWith(t *testing.T, base, name string, content []byte, pack string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	archive := fixtures.Run(t, "sh", "-c", "cd "+dir+" && echo "+name+" | cpio --quiet -o -H newc | "+pack)
	image, f, err := iso.OpenFile(base)
	if err != nil {
		t.Fatal(err)
	}
	area, err := image.IgnitionArea()
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if int64(len(archive)) > area.Length {
		t.Fatalf("got an archive of %d bytes, want at most %d", len(archive), area.Length)
	}
	out, err := os.OpenFile(base, os.O_WRONLY, 0)
	if err == nil {
		_, err = out.WriteAt([]byte(archive), area.Offset)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

// A config that fills its area is merged into a larger one. Without merge, ours has to fit.
func TestMergeIntoAFullArea(t *testing.T) {
	random := make([]byte, 64_000) // of 65,536
	if _, err := rand.NewChaCha8([32]byte{}).Read(random); err != nil {
		t.Fatal(err)
	}
	theirs := []byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/theirs",` +
		`"contents":{"source":"data:;base64,` + base64.StdEncoding.EncodeToString(random) + `"}}]}}`)
	base, out := fixtures.LiveISO(t, "-rock"), filepath.Join(t.TempDir(), "out.iso")
	fill(t, base, theirs, "gzip")
	a := appliance(t, func(s *spec.Spec) { s.ISO = spec.ISO{Base: base, Existing: spec.ExistingMerge} })
	files, err := configureWith(t, a, nil, nil, pinset.Program{})
	if err != nil {
		t.Fatal(err)
	}
	if err := files.LiveISO().Base.Apply(t.Context(), out, files.LiveISO().Edit); err != nil {
		t.Fatal(err)
	}
	image, f, err := iso.OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := image.Ignition(); err != nil || !bytes.Equal(got, files.Texts()["merged.ign"].Content) {
		t.Errorf("got a config of %d bytes, %v, want merged.ign", len(got), err)
	}
	if area, err := image.IgnitionArea(); err != nil || area.Length <= 65536 {
		t.Errorf("got an area of %d bytes, %v, want a larger one than the base has", area.Length, err)
	}
}

// Without merge, such an ISO is refused; with a file of the agent's in our config, too.
func TestAgentISOConflict(t *testing.T) {
	base, _ := agentISO(t, 100)
	snippet := filepath.Join(t.TempDir(), "agent.bu")
	if err := os.WriteFile(snippet, []byte("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n"+
		"  - path: /usr/local/bin/agent\n    contents:\n      inline: ours\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for existing, want := range map[string]error{"": iso.ErrHasConfig, spec.ExistingMerge: ignition.ErrMerge, spec.ExistingReplace: nil} {
		a := appliance(t, func(s *spec.Spec) {
			s.ISO, s.Ignition.Butane = spec.ISO{Base: base, Existing: existing}, []string{snippet}
		})
		_, err := configureWith(t, a, nil, nil, pinset.Program{})
		if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), base) {
			t.Errorf("%q: got %v, want %v", existing, err, want)
		}
		if existing == spec.ExistingMerge && !strings.Contains(err.Error(), "/usr/local/bin/agent: the ISO has a file 0755") {
			t.Errorf("got %v, want the path and both sides", err)
		}
	}
}

// restore writes the base of a live ISO to out, byte for byte.
func restore(t *testing.T, edited, out string) error {
	t.Helper()
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(artifact.Extract(t.Context(), edited, layout.MediumBase, f), f.Close())
}
