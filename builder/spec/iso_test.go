package spec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/spec"
)

func TestRefusedModes(t *testing.T) {
	for text, want := range map[string]string{
		"iso: {mode: liev}":                                                                                "it must be live, install or agent",
		"iso: {mode: install, base: x.iso}":                                                                "needs a disk",
		"iso: {mode: install, installDevice: /dev/sda}":                                                    "needs a live ISO",
		"iso: {base: x.iso, installDevice: /dev/sda}":                                                      "is for spec.iso.mode install or agent",
		"iso: {mode: install, base: x.iso, installDevice: sda}":                                            "a path below /dev",
		"iso: {mode: install, base: x.iso, installDevice: '/dev/sda; reboot'}":                             "a path below /dev",
		"iso: {base: x.iso, installedKernelArguments: {append: [a]}}":                                      "are for spec.iso.mode install",
		"iso: {mode: agent, base: x.iso, installDevice: /dev/sda}":                                         "is not merge",
		"iso: {base: x.iso, existing: keep}":                                                               "it must be merge or replace",
		"iso: {existing: merge}":                                                                           "spec.iso.base is missing",
		"{iso: {mode: install, base: x.iso, installDevice: /dev/sda}, node: {store: {path: /srv/x}}}":      "leave it out",
		"node: {store: {volumeLabel: PINBOX, partitionLabel: x}}":                                          "give one",
		"node: {store: {volumeLabel: PINBOX, url: 'http://x/y'}}":                                          "give one",
		"node: {store: {url: 'ftp://x/y'}}":                                                                "http:// or https://",
		"node: {store: {url: 'http://me:secret@x/y'}}":                                                     "without a password",
		"node: {store: {url: 'http://x/'}}":                                                                "the path of a file",
		"node: {store: {url: 'http://x/a b'}}":                                                             "the path of a file",
		"{iso: {mode: install, base: x.iso, installDevice: /dev/sda}, node: {store: {url: 'http://x/y'}}}": "leave it out",
		"node: {store: {volumeLabel: pinbox}}":                                                             "A to Z",
	} {
		t.Run(text, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "appliance.yaml")
			if !strings.HasPrefix(text, "{") {
				text = "{" + text + "}"
			}
			content := "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: x}\n" +
				"spec: {sources: [{pinnedImageSets: [x.yaml]}], " + text[1:] + "\n"
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := spec.Read(file); !errors.Is(err, spec.ErrAppliance) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %v with %q", err, spec.ErrAppliance, want)
			}
		})
	}
}
