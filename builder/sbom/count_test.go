package sbom_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/sbom"
)

// Both forms have the packages of each image, and of an image whose databases were not read none.
func TestCount(t *testing.T) {
	want := map[string]int{example().Images[0].Pin: 2, example().Images[1].Pin: 0}
	for format, write := range sbom.Formats() {
		var text bytes.Buffer
		if err := write(example(), &text, "v1.2.3"); err != nil {
			t.Fatal(err)
		}
		got, err := sbom.Count(&text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: got %v, want -, got +:\n%s", format, err, diff)
		}
	}
}

func TestCountRefusesOthers(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":      "packages:",
		"another SBOM": `{"spdxVersion":"SPDX-2.3","packages":[{"SPDXID":"SPDXRef-Image-1","name":"a","versionInfo":"1"}]}`,
		"large":        `{"packages":[` + strings.Repeat(" ", 129<<20) + `]}`,
	} {
		if got, err := sbom.Count(strings.NewReader(text)); !errors.Is(err, sbom.ErrNotSBOM) {
			t.Errorf("%s: got %v and %v, want %v", name, got, err, sbom.ErrNotSBOM)
		}
	}
}
