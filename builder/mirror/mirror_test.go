package mirror_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/builder/mirror"
	"github.com/pinbox/pinbox/fixtures"
)

func digests(source string, mirrors ...string) mirror.Rule {
	return mirror.Rule{Source: source, Mirrors: mirrors, PullFrom: mirror.Digest}
}

func tags(source string, mirrors ...string) mirror.Rule {
	return mirror.Rule{Source: source, Mirrors: mirrors, PullFrom: mirror.Tag}
}

func never(r mirror.Rule) mirror.Rule {
	r.NeverContactSource = true
	return r
}

// brief returns a line for each source: ! if the source is blocked, # before mirrors for digests, and :
// before mirrors for tags.
func brief(registries []mirror.Registry) (lines []string) {
	for _, r := range registries {
		line := r.Source
		if r.Blocked {
			line += " !"
		}
		for _, m := range r.Mirrors {
			line += map[mirror.PullFrom]string{mirror.Digest: " #", mirror.Tag: " :"}[m.PullFrom] + m.Location
		}
		lines = append(lines, line)
	}
	return lines
}

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		rules []mirror.Rule
		want  []string
	}{
		"no rules": {nil, nil},
		"sources by name": {
			[]mirror.Rule{digests("b.io/x", "m/x"), digests("a.io", "m/a"), digests("*.c.io", "m/c")},
			[]string{"*.c.io #m/c", "a.io #m/a", "b.io/x #m/x"},
		},
		"mirrors in their order": {[]mirror.Rule{digests("a.io", "z", "y", "x")}, []string{"a.io #z #y #x"}},
		"digests and tags of a source": {
			[]mirror.Rule{tags("a.io", "t2", "t1"), digests("a.io", "d")}, []string{"a.io #d :t2 :t1"},
		},
		"a blocked source": {
			[]mirror.Rule{never(digests("a.io", "m")), digests("b.io", "m")}, []string{"a.io ! #m", "b.io #m"},
		},
		"blocked for digests and tags": {
			[]mirror.Rule{never(digests("a.io", "m")), never(tags("a.io", "n"))}, []string{"a.io ! #m :n"},
		},
		"two orders": {
			[]mirror.Rule{digests("a.io", "y", "x"), digests("a.io", "z", "y")}, []string{"a.io #z #y #x"},
		},
		"no order between mirrors: by name": {
			[]mirror.Rule{digests("a.io", "z"), digests("a.io", "y"), digests("a.io", "x", "w")}, []string{"a.io #x #y #z #w"},
		},
		"contradicting orders": {
			[]mirror.Rule{digests("s.io", "r1", "r2"), digests("s.io", "l", "r2", "r1")}, []string{"s.io #l #r1 #r2"},
		},
		"the source in between": {
			[]mirror.Rule{digests("a.io", "z", "a.io", "y"), digests("a.io", "a.io", "y", "x")}, []string{"a.io #z #a.io #y #x"},
		},
		"the source at the end": {[]mirror.Rule{digests("a.io", "z", "a.io")}, []string{"a.io #z"}},
		"only the source":       {[]mirror.Rule{digests("a.io"), digests("b.io", "b.io")}, nil},
		"only a policy":         {[]mirror.Rule{never(digests("a.io"))}, nil},
		"nested sources stay apart": {
			[]mirror.Rule{digests("a.io", "m/all"), digests("a.io/x", "m/x")}, []string{"a.io #m/all", "a.io/x #m/x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mirror.Merge(c.rules)
			if err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if diff := cmp.Diff(c.want, brief(got)); diff != "" {
				t.Errorf("mirrors (-want +got):\n%s", diff)
			}
		})
	}
}

// The Machine Config Operator refuses these too: validateRegistriesConfScopes.
func TestConflictingPolicies(t *testing.T) {
	for name, rules := range map[string][]mirror.Rule{
		"two objects":            {never(digests("a.io", "m")), digests("a.io", "m")},
		"digests and tags":       {tags("a.io", "m"), never(digests("a.io", "m"))},
		"a rule without mirrors": {never(digests("a.io", "m")), digests("a.io")},
	} {
		t.Run(name, func(t *testing.T) {
			rules[0].Origin, rules[1].Origin = "x.yaml:1", "y.yaml:2"
			_, err := mirror.Merge(rules)
			if !errors.Is(err, mirror.ErrConflict) || !strings.Contains(err.Error(), "y.yaml:2") ||
				!strings.Contains(err.Error(), "in x.yaml:1 it is") || !strings.Contains(err.Error(), "a.io") {
				t.Errorf("got %v, want %v with a.io and both origins", err, mirror.ErrConflict)
			}
		})
	}
}

// everything renders rules of each kind.
func everything(t *testing.T) []byte {
	t.Helper()
	registries, err := mirror.Merge([]mirror.Rule{
		digests("quay.io/openshift-release-dev/ocp-release", "mirror.lab:8443/mirror/openshift/release-images"),
		tags("quay.io/openshift-release-dev/ocp-release", "mirror.lab:8443/mirror/openshift/release-images"),
		never(digests("registry.redhat.io", "mirror.lab:8443/redhat", "mirror2.lab/redhat")),
		digests("*.example.com", "mirror.lab:8443/example"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return mirror.Render(registries)
}

func TestRegistriesGolden(t *testing.T) { fixtures.Golden(t, "50-pinbox-mirrors.conf", everything(t)) }

// CRI-O's parser of the text gives the expected mirrors.
func TestMirrorsOfTheLibrary(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{"registries.conf": nil, "50-pinbox-mirrors.conf": everything(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sys := &imgtypes.SystemContext{
		SystemRegistriesConfPath: filepath.Join(dir, "registries.conf"), SystemRegistriesConfDirPath: dir,
	}
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string][]string{
		"quay.io/openshift-release-dev/ocp-release" + digest: {
			"mirror.lab:8443/mirror/openshift/release-images" + digest, "quay.io/openshift-release-dev/ocp-release" + digest,
		},
		"quay.io/openshift-release-dev/ocp-release:4": {
			"mirror.lab:8443/mirror/openshift/release-images:4", "quay.io/openshift-release-dev/ocp-release:4",
		},
		"registry.redhat.io/ubi9/ubi" + digest: {
			"mirror.lab:8443/redhat/ubi9/ubi" + digest, "mirror2.lab/redhat/ubi9/ubi" + digest, "blocked",
		},
		"registry.redhat.io/ubi9/ubi:1": {"blocked"},
		"a.example.com/ns/app" + digest: {
			"mirror.lab:8443/example/ns/app" + digest, "a.example.com/ns/app" + digest,
		},
		"quay.io/openshift-release-dev/ocp-release-x" + digest: nil,
	} {
		t.Run(image, func(t *testing.T) {
			ref, err := reference.ParseNamed(image)
			if err != nil {
				t.Fatal(err)
			}
			registry, err := sysregistriesv2.FindRegistry(sys, ref.Name())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if registry != nil {
				sources, err := registry.PullSourcesFromReference(ref)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range sources {
					got = append(got, s.Reference.String())
				}
				if registry.Blocked {
					got[len(got)-1] = "blocked"
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("mirrors (-want +got):\n%s", diff)
			}
		})
	}
	if text := mirror.Render(nil); text != nil {
		t.Errorf("got %q for no mirrors, want nothing", text)
	}
}

func TestCheckSource(t *testing.T) {
	for source, want := range map[string]string{
		"quay.io":                    "",
		"quay.io/ns":                 "",
		"mirror.lab:8443/a/b_c/d--e": "",
		"localhost:5000/a":           "",
		"*.example.com":              "",
		"https://quay.io/ns/":        `source "https://quay.io/ns/" has a scheme; write quay.io/ns`,
		"docker://quay.io/ns/app":    "has a scheme; write quay.io/ns/app",
		"quay.io:443/ns/app:1": "has a tag or a digest, and mirrors are for whole repositories; " +
			"write quay.io:443/ns/app",
		"quay.io/ns/app@sha256:12":      "write quay.io/ns/app",
		"quay.io/ns/app:1@sha256:12":    "write quay.io/ns/app",
		"quay.*.com":                    `source "quay.*.com": a wildcard stands for hosts, as in *.example.com`,
		"*.example.com/ns":              "a wildcard stands for hosts",
		"":                              "source is missing",
		"quay.io/Upper":                 "does not have the form host[:port][/path]",
		"quay.io/ns/":                   "does not have the form",
		"quay.io/a b":                   "does not have the form",
		"quay.io\"\nblocked = true\n\"": "does not have the form",
	} {
		err := mirror.CheckSource(source)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
	if err := mirror.CheckMirror("*.example.com"); err == nil {
		t.Error("got no error for a mirror with a wildcard, want one")
	}
}
