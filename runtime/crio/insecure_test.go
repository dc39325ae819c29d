package crio_test

import (
	"testing"

	"github.com/pinbox/pinbox/runtime/crio"
)

func TestReadsInsecureRegistries(t *testing.T) {
	for version, want := range map[string]bool{
		"1.31.0": true, "1.35.6": true, "1.36.0": false, "1.37.0-dev": false, "2.0.0": false, "unknown": true,
	} {
		if got := crio.ReadsInsecureRegistries(version); got != want {
			t.Errorf("%s: got %v, want %v", version, got, want)
		}
	}
}
