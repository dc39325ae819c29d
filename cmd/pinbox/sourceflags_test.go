package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder/source"
)

// Values of flags reach their sources: those of one that may be repeated all, of another
// the last.
func TestSourceFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want []source.Source
	}{
		"none":       {"", nil},
		"repeated":   {"--image a --image b", []source.Source{&source.Images{"a", "b"}}},
		"the last":   {"--release a --release b", []source.Source{&source.Release{Image: "b"}}},
		"taken back": {"--release a --release=", nil},
		"empty":      {"--set=", []source.Source{&source.PinnedImageSets{""}}},
		"two for a source": {
			"--oc-mirror a --image-set-config b", []source.Source{&source.OCMirror{Paths: []string{"a"}, Config: "b"}},
		},
		"two sources": {
			"--oci a=b --image c", []source.Source{&source.Images{"c"}, &source.OCI{{Path: "a", Name: "b"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f sourceFlags
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.add(flags)
			if err := flags.Parse(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			var got []source.Source
			for _, e := range f.entries() {
				got = append(got, e.Source)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("sources of %q (-want +got):\n%s", c.args, diff)
			}
		})
	}
}

// Every flag of the table is one of the program, and stands in its hint.
func TestEverySourceHasAFlag(t *testing.T) {
	for _, args := range [][]string{{"plan", "--help", "--all"}, {"plan"}} {
		_, stdout, stderr := pinbox(t.Context(), args...)
		for _, flag := range source.FlagNames() {
			if !strings.Contains(stdout+stderr, flag) {
				t.Errorf("pinbox %s: got no %s in\n%s%s", strings.Join(args, " "), flag, stdout, stderr)
			}
		}
	}
}
