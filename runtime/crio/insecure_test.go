package crio_test

import (
	"slices"
	"testing"

	"github.com/pinbox/pinbox/runtime/crio"
)

func TestInsecureRegistriesOfVersions(t *testing.T) {
	all := []string{"127.0.0.0/8", "10.0.0.1:5000"}
	for version, want := range map[string][]string{
		"1.31.0": all, "1.34.9": all, "1.35.0": nil, "1.36.0": nil, "1.37.0-dev": nil, "2.0.0": nil, "unknown": all,
	} {
		if got := (crio.Config{Insecure: all[1:]}).InsecureRegistries(version); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", version, got, want)
		}
	}
}
