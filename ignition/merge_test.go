package ignition_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
)

// theirs is what an agent's config is like: files, a unit with a drop-in, a user, and a config within it, as
// `coreos-installer iso customize` makes one.
const theirs = `{"ignition": {"version": "VERSION", "config": {"merge": [{"source": "data:;base64,INNER"}]}},
 "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA theirs"]}]},
 "storage": {"files": [{"path": "/etc/agent", "contents": {"source": "data:,agent"}, "mode": 384}]},
 "systemd": {"units": [{"name": "agent.service", "enabled": true, "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"},
   {"name": "crio.service", "dropins": [{"name": "10-agent.conf", "contents": "[Unit]\nAfter=agent.service\n"}]}]}}`

func theirConfig(version string) []byte {
	inner := base64.StdEncoding.EncodeToString([]byte(
		`{"ignition": {"version": "3.1.0"}, "storage": {"files": [{"path": "/etc/inner", "contents": {"source": "data:,inner"}}]}}`))
	return []byte(strings.NewReplacer("VERSION", version, "INNER", inner).Replace(theirs))
}

// The real Ignition applies a merged config, and the node gets the files and units of both. Ours is 3.4; the
// version of theirs stays if it is newer.
func TestMergedConfigIsApplied(t *testing.T) {
	ours, err := ignition.Translate(rendered(t)["installed"])
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"3.1.0": "3.4.0", "3.4.0": "3.4.0", "3.5.0": "3.5.0", "3.6.0": "3.6.0"} {
		t.Run(version, func(t *testing.T) {
			merged, notes, err := ignition.Merge(theirConfig(version), ours, nil)
			if err != nil || notes != nil {
				t.Fatalf("got %v and the notes %q, want neither", err, notes)
			}
			var c types.Config
			if err := json.Unmarshal(merged, &c); err != nil || c.Ignition.Version != want {
				t.Errorf("got version %s, %v, want %s", c.Ignition.Version, err, want)
			}
			root := apply(t, merged)
			for file, content := range map[string]string{
				"etc/agent": "agent", "etc/inner": "inner", "etc/hostname": "ship-7",
				"etc/systemd/system/agent.service": "ExecStart=/bin/true", "etc/systemd/system/pinbox-node.service": "pinbox-node run",
				"etc/systemd/system/crio.service.d/10-agent.conf":         "After=agent.service",
				"etc/systemd/system/crio.service.d/10-pinbox-stores.conf": "pinbox-mount.service",
			} {
				if got, err := os.ReadFile(filepath.Join(root, file)); err != nil || !strings.Contains(string(got), content) {
					t.Errorf("%s: got %q, %v, want %q in it", file, got, err, content)
				}
			}
			keys := c.Passwd.Users[0].SSHAuthorizedKeys
			if len(keys) != 2 {
				t.Errorf("got the keys %q, want one of each", keys)
			}
		})
	}
}

// apply lets the real Ignition write the files of a config without its users into a folder.
func apply(t *testing.T, config []byte) (root string) {
	t.Helper()
	fixtures.NeedRoot(t)
	var doc map[string]any
	if err := json.Unmarshal(config, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "passwd")
	config, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root, program, file := filepath.Join(dir, "root"), filepath.Join(dir, "ignition-apply"), filepath.Join(dir, "config.ign")
	for _, err := range []error{
		os.Mkdir(root, 0o755), os.Symlink(fixtures.Peer(t, "ignition"), program), os.WriteFile(file, config, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// It refuses to run outside of a container, which it recognises by this file.
	const inContainer = `mount -t tmpfs tmpfs /run && touch /run/.containerenv && exec "$@"`
	cmd := exec.Command(fixtures.Need(t, "unshare"), "--mount", "sh", "-c", inContainer, "sh",
		program, "--root", root, "--ignore-unsupported", "--offline", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ignition-apply: %v\n%s", err, out)
	}
	return root
}

// What both configs have is named with both sides, wherever in them it is. Equal parts are no conflict.
func TestMergeConflicts(t *testing.T) {
	snippet := base64.StdEncoding.EncodeToString([]byte(`{"ignition": {"version": "3.4.0"},
 "storage": {"files": [{"path": "/etc/snippet", "contents": {"source": "data:,ours"}}]}}`))
	ours := []byte(`{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "data:;base64,` + snippet + `"}]}},
 "passwd": {"users": [{"name": "core", "passwordHash": "ours"}]},
 "storage": {"files": [{"path": "/etc/f", "contents": {"source": "data:,ours"}, "mode": 420}],
   "directories": [{"path": "/etc/d", "mode": 493}]},
 "systemd": {"units": [{"name": "u.service", "enabled": true, "contents": "ours"}, {"name": "c.service", "dropins": [{"name": "d.conf", "contents": "ours"}]}]}}`)
	for name, c := range map[string]struct{ config, want string }{
		"equal file":  {`"storage": {"files": [{"path": "/etc/f", "contents": {"source": "data:;base64,b3Vycw=="}}]}`, ""},
		"another one": {`"storage": {"files": [{"path": "/etc/g", "contents": {"source": "data:,theirs"}}]}`, ""},
		"file": {
			`"storage": {"files": [{"path": "/etc/f", "contents": {"source": "data:,their"}}]}`,
			"/etc/f: the ISO has a file 0644 root:root, of 5 bytes with SHA-256",
		},
		"mode": {
			`"storage": {"files": [{"path": "/etc/f", "mode": 384, "contents": {"source": "data:,ours"}}]}`,
			"/etc/f: the ISO has a file 0600",
		},
		"link":      {`"storage": {"links": [{"path": "/etc/f", "target": "/etc/g"}]}`, "/etc/f: the ISO has a link"},
		"folder":    {`"storage": {"directories": [{"path": "/etc/d", "mode": 448}]}`, "/etc/d: the ISO has a folder 0700"},
		"unit":      {`"systemd": {"units": [{"name": "u.service", "contents": "theirs"}]}`, "unit u.service: the ISO has of 6 bytes"},
		"enabled":   {`"systemd": {"units": [{"name": "u.service", "enabled": false}]}`, "enabling of unit u.service: the ISO has false, pinbox true"},
		"drop-in":   {`"systemd": {"units": [{"name": "c.service", "dropins": [{"name": "d.conf", "contents": "x"}]}]}`, "drop-in d.conf of unit c.service"},
		"password":  {`"passwd": {"users": [{"name": "core", "passwordHash": "theirs"}]}`, "password of user core"},
		"a snippet": {`"storage": {"files": [{"path": "/etc/snippet", "contents": {"source": "data:,theirs"}}]}`, "/etc/snippet: the ISO has a file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ignition.Merge([]byte(`{"ignition": {"version": "3.2.0"}, `+c.config+`}`), ours, nil)
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if !errors.Is(err, ignition.ErrMerge) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ", pinbox ") {
				t.Errorf("got %v, want %q and pinbox's side", err, c.want)
			}
		})
	}
}

// What cannot be merged, or compared.
func TestMergeRefuses(t *testing.T) {
	ours := []byte(`{"ignition": {"version": "3.4.0"}, "storage": {"directories": [{"path": "/etc/d"}]}}`)
	nested := `{"ignition": {"version": "3.4.0"}}`
	for range 7 {
		nested = `{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "data:;base64,` +
			base64.StdEncoding.EncodeToString([]byte(nested)) + `"}]}}}`
	}
	for name, c := range map[string]struct{ config, want string }{
		"another version": {`{"ignition": {"version": "3.7.0-experimental"}}`, "version 3.7.0-experimental, and this pinbox knows 3.0 to 3.6"},
		"no config":       {`#!ipxe`, "the Ignition config of the ISO cannot be merged"},
		"one that is replaced": {
			`{"ignition": {"version": "3.4.0", "config": {"replace": {"source": "http://provider/config.ign"}}}}`,
			"replaced by http://provider/config.ign",
		},
		"one that is not valid with ours": {
			`{"ignition": {"version": "3.4.0"}, "storage": {"links": [{"path": "/etc/x", "target": "/etc/d", "hard": true}]}}`,
			"config is not valid: /etc/x: error at $.storage.links.0",
		},
		"a deep one": {nested, "more than 5 configs within each other"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := ignition.Merge([]byte(c.config), ours, nil); !errors.Is(err, ignition.ErrMerge) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	_, notes, err := ignition.Merge([]byte(
		`{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "http://provider/config.ign"}]}}}`), ours, nil)
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "http://provider/config.ign") {
		t.Errorf("got the notes %q, %v, want one that names what is fetched", notes, err)
	}
}
