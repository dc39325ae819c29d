package ignition_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/crio"
)

// inner is a config of others as the source of another one.
func inner(config string) string {
	return "data:;base64," + base64.StdEncoding.EncodeToString([]byte(`{"ignition": {"version": "3.4.0"}, `+config+`}`))
}

func pinsFile(content string) string {
	return `"storage": {"files": [{"path": "` + crio.PinnedImagesPath + `", "contents": {"source": "data:,` + content + `"}}]}`
}

// What pinbox writes is found at any level of a Butane file, and in whatever form.
func TestConflictsOfSnippetsAtEveryLevel(t *testing.T) {
	merge := func(source string) string {
		return "ignition: {config: {merge: [{source: '" + source + "'}]}}"
	}
	for name, test := range map[string]struct{ butane, want string }{ // the item; "" for none
		"merged": {merge(inner(pinsFile("x"))), crio.PinnedImagesPath},
		"merged twice": {
			merge(inner(`"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "` + inner(pinsFile("x")) + `"}]}}`)),
			crio.PinnedImagesPath,
		},
		"replaced": {"ignition: {config: {replace: {source: '" + inner(pinsFile("x")) + "'}}}", crio.PinnedImagesPath},
		"link above": {
			"storage: {links: [{path: /etc/crio, target: /mnt/crio}]}", "/etc/crio: pinbox has /etc/crio/crio.conf.d",
		},
		"file above":   {"storage: {files: [{path: /var/lib/pinbox, contents: {inline: x}}]}", "/var/lib/pinbox: pinbox has"},
		"folder above": {"storage: {directories: [{path: /var/lib/pinbox, mode: 0700}]}", ""},
		"unit as a file": {
			"storage: {files: [{path: /etc/systemd/system/pinbox-node.service, contents: {inline: x}}]}", "pinbox-node.service",
		},
		"unit as a link": {
			"storage: {links: [{path: /etc/systemd/system/pinbox-node.service, target: /dev/null}]}", "pinbox-node.service",
		},
		"drop-in as a file": {
			"storage: {files: [{path: /etc/systemd/system/crio.service.d/10-pinbox-stores.conf, contents: {inline: x}}]}",
			"10-pinbox-stores.conf",
		},
		"masked unit":  {"systemd: {units: [{name: pinbox-node.service, mask: true}]}", "pinbox-node.service"},
		"another unit": {"systemd: {units: [{name: app.service, contents: '[Service]'}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			snippet := ignition.Snippet{Name: "mine.bu", Content: []byte("variant: fcos\nversion: 1.5.0\n" + test.butane + "\n")}
			_, _, err := ignition.Config{Snippets: []ignition.Snippet{snippet}}.Translate()
			if test.want == "" && err != nil ||
				test.want != "" && (!errors.Is(err, ignition.ErrConflict) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Links and files above what pinbox writes, and units as files, are found in the config of a base, too.
func TestConflictsOfABase(t *testing.T) {
	ours := []byte(`{"ignition": {"version": "3.4.0"},
 "storage": {"files": [{"path": "/etc/crio/crio.conf.d/50-x", "contents": {"source": "data:,ours"}}]},
 "systemd": {"units": [{"name": "u.service", "contents": "ours"}]}}`)
	for name, test := range map[string]struct{ config, want string }{
		"link above":     {`"storage": {"links": [{"path": "/etc/crio", "target": "/x"}]}`, "/etc/crio: the ISO has a link"},
		"unit as a file": {`"storage": {"files": [{"path": "/etc/systemd/system/u.service"}]}`, "unit u.service: the ISO has a file"},
		"masked":         {`"systemd": {"units": [{"name": "u.service", "mask": true}]}`, "masking of unit u.service: the ISO has it"},
		"another masked": {`"systemd": {"units": [{"name": "v.service", "mask": true}]}`, ""},
		"reserved":       {`"storage": {"directories": [{"path": "/var/lib/pinbox/stores/3"}]}`, "/var/lib/pinbox/stores/3: the ISO has one"},
		"below our file": {
			`"storage": {"files": [{"path": "/etc/crio/crio.conf.d/50-x/y"}]}`, "/etc/crio/crio.conf.d/50-x: the ISO has /etc/crio",
		},
		"a file of coreos-installer": {
			`"storage": {"files": [{"path": "/etc/coreos/installer.d/0000-customize.yaml", "contents": {"source": "data:,dest-device:%20/dev/sda"}}]}`,
			"0000-customize.yaml: the ISO has dest-device: /dev/sda",
		},
		"one that is fetched": {
			`"storage": {"files": [{"path": "/etc/coreos/installer.d/a.yaml", "contents": {"source": "http://boot.lab/a"}}]}`,
			"fetches options of coreos-installer from http://boot.lab/a",
		},
		"not valid": {
			`"storage": {"links": [{"path": "/etc/a", "target": "/x"}], "files": [{"path": "/etc/a/b"}]}`, "/etc/a",
		},
		"a console only": {
			`"storage": {"files": [{"path": "/etc/coreos/installer.d/a.yaml", "contents": {"source": "data:,console:%20%5BttyS0%5D"}}]}`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ignition.Merge([]byte(`{"ignition": {"version": "3.3.0"}, `+test.config+`}`), ours,
				[]string{"/var/lib/pinbox/stores/3"})
			if test.want == "" && err != nil ||
				test.want != "" && (!errors.Is(err, ignition.ErrMerge) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Configs that the node fetches when it boots are named: those of a cluster's server are there.
func TestConfigsThatANodeFetches(t *testing.T) {
	for butane, want := range map[string]string{
		"ignition: {config: {merge: [{source: 'https://api-int:22623/config/worker'}]}}": "the config https://api-int:22623/config/worker",
		"ignition: {config: {replace: {source: 'https://boot.lab/a.ign'}}}":              "the config https://boot.lab/a.ign",
	} {
		snippet := ignition.Snippet{Name: "mine.bu", Content: []byte("variant: fcos\nversion: 1.5.0\n" + butane + "\n")}
		_, notes, err := ignition.Config{Snippets: []ignition.Snippet{snippet}}.Translate()
		if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "mine.bu: ") || !strings.Contains(notes[0], want) {
			t.Errorf("got the notes %q, %v, want one with %q", notes, err, want)
		}
	}
}

func TestVersionsOfConfigsAreNamed(t *testing.T) {
	for _, version := range []string{"2.3.0", "3.7.0", "3.7.0-experimental", "4.0.0"} {
		_, _, err := ignition.Merge(fmt.Appendf(nil, `{"ignition": {"version": %q}}`, version),
			[]byte(`{"ignition": {"version": "3.4.0"}}`), nil)
		if !errors.Is(err, ignition.ErrMerge) || !strings.Contains(err.Error(), "version "+version+", and this pinbox knows 3.0 to 3.6") {
			t.Errorf("%s: got %v, want the version, and those that are known", version, err)
		}
	}
}
