package crio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Paths of the drop-ins. CRI-O reads every file below its drop-in folder, in
// lexical order; the last pinned_images counts, and storage_option is appended (crio.conf.d(5)).
const (
	// PinnedImagesPath is a file that the Machine Config Operator writes too:
	// pkg/daemon/pinned_image_set.go.
	PinnedImagesPath = "/etc/crio/crio.conf.d/50-pinned-images"
	// StoresPath sorts after 00-default, in which OpenShift sets internal_repair.
	StoresPath = "/etc/crio/crio.conf.d/50-pinbox-stores"
	// CredentialsPath names the file of the pull secret.
	CredentialsPath = "/etc/crio/crio.conf.d/50-pinbox-pull-secret"
)

// PullSecretPath is the pull secret of the kubelet and of CRI-O on OpenShift's nodes:
// templates/common of the Machine Config Operator.
const PullSecretPath = "/var/lib/kubelet/config.json"

// Slots are the mount points of read-only stores. All are configured from the start: CRI-O sees a
// store that is mounted later at once, but needs a restart for one that is configured later.
func Slots() []string {
	slots := make([]string, 8)
	for i := range slots {
		slots[i] = fmt.Sprintf("%s/%d", layout.SlotsDir, i)
	}
	return slots
}

// RenderPinned returns the drop-in that pins the images: byte for byte what the Machine Config
// Operator writes for them, so that both agree on a node that it manages.
func RenderPinned(images []pinset.Image) []byte {
	quoted := make([]string, len(images))
	for i, img := range images {
		quoted[i] = `"` + img.String() + `"`
	}
	return fmt.Appendf(nil, "[crio]\n  [crio.image]\n    pinned_images = [%s]\n", strings.Join(quoted, ", "))
}

// RenderStores returns the drop-in that adds the slots as additional image stores; none if something else lists
// them: CRI-O takes each spelling of the option for another store, and lists the images of both.
func RenderStores(slots []string, internalRepair bool) []byte {
	var b strings.Builder
	b.WriteString("[crio]\n")
	if len(slots) > 0 {
		b.WriteString("# Read-only image stores, mounted or empty.\nstorage_option = [\n")
		for two := range slices.Chunk(slots, 2) {
			// Each is an option of its own: CRI-O drops one that storage.conf has, too, only if both are equal.
			b.WriteString("  \"overlay.imagestore=" + strings.Join(two, "\", \"overlay.imagestore=") + "\",\n")
		}
		b.WriteString("]\n")
	}
	if internalRepair {
		b.WriteString("internal_repair = true\n")
	} else {
		b.WriteString(`# Up to at least 1.34 the repair after an unclean stop wipes the main store: container-libs#888.
internal_repair = false
`)
	}
	// Not the slots: see LinkArtifacts of runtime/stores.
	fmt.Fprintf(&b, "# OCI artifacts, from CRI-O 1.36 on.\n"+
		"runtime.additional_artifact_stores = [%q]\n", layout.NodeDir)
	return []byte(b.String())
}

// renderPins returns the drop-in that pins the images, and what the files before it pin, which it would else replace.
func renderPins(images []pinset.Image, c Config) []byte {
	if len(c.Earlier) == 0 {
		return RenderPinned(images)
	}
	var all []string
	for _, img := range images {
		all = append(all, img.String())
	}
	var quoted []string
	for _, pin := range append(all, c.Earlier...) {
		text, _ := json.Marshal(pin) // its escapes are those of TOML, too
		quoted = append(quoted, string(text))
	}
	return fmt.Appendf(nil, "[crio]\n  [crio.image]\n    %s%d are the pins of %q, which this file replaces.\n"+
		"    pinned_images = [%s]\n", theLast, len(c.Earlier), c.EarlierBy, strings.Join(quoted, ", "))
}

// theLast begins the line of the drop-in that tells how many pins are of others.
const theLast = "# The last "

// ofPinbox returns the pins of the drop-in that are not of others.
func ofPinbox(content []byte, pins []string) []string {
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), theLast); ok {
			number, _, _ := strings.Cut(rest, " ")
			if n, err := strconv.Atoi(number); err == nil && n >= 0 && n <= len(pins) {
				return pins[:len(pins)-n]
			}
		}
	}
	return pins
}

// RenderCredentials returns the drop-in that makes CRI-O use the pull secret.
func RenderCredentials() []byte {
	return fmt.Appendf(nil, "# Written by pinbox: the credentials for pulls.\n[crio]\n  [crio.image]\n"+
		"    global_auth_file = %q\n", PullSecretPath)
}
