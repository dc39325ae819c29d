package sbom

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// dpkg-query lists the same packages of this machine as readDpkg.
func TestDpkgOfThisMachine(t *testing.T) {
	content, err := os.ReadFile("/var/lib/dpkg/status")
	if err != nil {
		fixtures.Skip(t, "this is no Debian: %v", err)
	}
	out, err := exec.Command("dpkg-query", "-W", "-f",
		"${db:Status-Status} ${Package} ${Version} ${Architecture} ${source:Package}\n").Output()
	if err != nil {
		fixtures.Skip(t, "%v", err)
	}
	var want, got []string
	for line := range strings.Lines(string(out)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "installed "); ok {
			want = append(want, p)
		}
	}
	err = readDpkg(content, func(p Package) error {
		if p.Source == "" {
			p.Source = p.Name
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", p.Name, p.Version, p.Arch, p.Source))
		return p.check()
	})
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got %v, %d packages, want the %d of dpkg-query", err, len(got), len(want))
	}
}

func TestPackagesThatAreRefused(t *testing.T) {
	for name, p := range map[string]Package{
		"no name":         {Version: "1"},
		"terminal escape": {Name: "a\x1b[2J"},
		"blank":           {Name: "a", Version: "1 2"},
		"other letters":   {Name: "ä"},
		"long":            {Name: strings.Repeat("a", maxField+1)},
	} {
		t.Run(name, func(t *testing.T) {
			if p.check() == nil {
				t.Error("got no error, want one")
			}
		})
	}
}

func TestReleaseField(t *testing.T) {
	for text, want := range map[string]string{
		"ID=debian\n":                    "debian",
		"NAME=x\nID=\"rhel\"\nID=b":      "rhel",
		"ID='fedora'":                    "fedora",
		"ID=a b":                         "",
		"ID=\x1b":                        "",
		"VERSION_ID=1":                   "",
		"ID=" + strings.Repeat("a", 200): "",
	} {
		if got := releaseField(text, "ID"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
