package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/storage/pinset"
)

// releases are two locks of a release with a long repository and a component with a long name.
func releases() (old, now pinset.Lock) {
	lock := func(version string) pinset.Lock {
		d := digest.FromString(version)
		return pinset.Lock{Images: []pinset.LockedImage{{
			Pin:    "quay.io/openshift-release-dev/ocp-v4.0-art-dev@" + d.String(),
			From:   []string{"release/" + version + "/cluster-capi-operator-with-a-very-long-name"},
			Layers: []*pinset.LockedLayer{{Digest: d, Size: 1234567890}},
		}, {
			Pin: "registry.example.com/a/" + strings.Repeat("very-", 20) + version + "@" + d.String(), Tags: []string{"a/b:1"},
		}}}
	}
	return lock("4.18.1"), lock("4.18.2")
}

// Tables fit in 100 columns, with a short digest and the name of the component; with --no-trunc they have all.
func TestTablesFitInAHundredColumns(t *testing.T) {
	old, now := releases()
	for _, n := range []names{{}, {full: true}} {
		var plan, diff bytes.Buffer
		for _, print := range []struct {
			to *bytes.Buffer
			of func(*cobra.Command) error
		}{
			{&plan, func(cmd *cobra.Command) error { return printPlan(cmd, "", n, now, nil, nil) }},
			{&diff, func(cmd *cobra.Command) error {
				return printDifference(cmd, "", n, difference{Difference: pinset.Compare(old, now)})
			}},
		} {
			cmd := &cobra.Command{}
			cmd.SetOut(print.to)
			if err := print.of(cmd); err != nil {
				t.Fatal(err)
			}
		}
		digits := digest.FromString("4.18.2").Encoded()
		for _, text := range []string{plan.String(), diff.String()} {
			widest := 0
			for line := range strings.Lines(text) {
				if !strings.Contains(line, ": ") { // a sentence is not part of the table
					widest = max(widest, utf8.RuneCountInString(strings.TrimSpace(line)))
				}
			}
			if short := widest <= 100; short == n.full || !strings.Contains(text, digits[:12]) ||
				strings.Contains(text, digits) != n.full || !strings.Contains(text, "cluster-capi-operat") {
				t.Errorf("full %v: got %d columns:\n%s", n.full, widest, text)
			}
		}
	}
}

// So do the tables of the inspect.
func TestInventoryFitsInAHundredColumns(t *testing.T) {
	const path = "manifests/a-set-with-a-long-name-of-many-images.yaml"
	_, now := releases()
	v := inspect.Inventory{Documents: []inspect.Document{{
		Name: path, Size: 1023 << 10, SHA256: digest.FromString("a").Encoded(), Sums: inspect.Same, Check: inspect.Verified,
		Signatures: []inspect.Signature{{File: "a.sig"}},
	}}}
	for _, img := range now.Images {
		v.Images = append(v.Images, inspect.Held{
			Pin: img.Pin, Name: img.Name(), Platform: "linux/ppc64le", Created: time.Now(), Check: inspect.NotChecked,
			Signatures: []inspect.Attached{{Form: "sigstore"}},
		})
	}
	for _, n := range []names{{}, {full: true}} {
		var text bytes.Buffer
		if err := printInventory(&text, n, v); err != nil {
			t.Fatal(err)
		}
		widest := 0
		for line := range strings.Lines(text.String()) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimSpace(line)))
		}
		if short := widest <= 100; short == n.full || !strings.Contains(text.String(), "signed: verified") ||
			!strings.Contains(text.String(), "many-images.yaml") || strings.Contains(text.String(), path) != n.full {
			t.Errorf("full %v: got %d columns:\n%s", n.full, widest, text.String())
		}
	}
}
