package openshift_test

import (
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/pinset"
)

func TestApplyGolden(t *testing.T) {
	for name, cluster := range clusters {
		commands := openshift.Apply(cluster.OpenShift, "out/manifests", []pinset.Set{{Name: "site"}})
		text := "#!/bin/sh\n" + strings.Join(commands, "\n") + "\n"
		fixtures.Golden(t, "openshift-"+name+"-apply.sh", []byte(text))
	}
}

// applied are the files that commands apply, in their order, and "POOL" where they wait for a pool, or "policy"; waits for the same
// are one.
func applied(commands []string) (all []string) {
	file := regexp.MustCompile(` -f (?:m/)?(\S+)`)
	waits := regexp.MustCompile(`^oc wait (?:mcp/)?(\S+)`)
	for _, c := range commands {
		for _, found := range file.FindAllStringSubmatch(c, -1) {
			all = append(all, found[1])
		}
		if found := waits.FindStringSubmatch(c); found != nil {
			all = append(all, "wait "+found[1])
		}
	}
	return slices.Compact(all)
}

func TestOrderOfApply(t *testing.T) {
	const policy, policySeen = "nodes/node-disruption-policy.yaml", "wait machineconfiguration/cluster"
	for name, test := range map[string]struct {
		cluster spec.OpenShift
		want    []string
	}{
		"default": {spec.OpenShift{Version: "4.20"}, []string{policy, policySeen, "nodes/99-worker-pinbox.yaml",
			"nodes/99-master-pinbox.yaml", "wait worker", "wait master", "sets/s.yaml"}},
		"podman": {spec.OpenShift{Version: "4.20", Podman: true, Pools: []string{"worker"}}, []string{policy, policySeen,
			"nodes/99-worker-pinbox.yaml", "wait worker", "sets/s.yaml", "podman"}},
		"a pool of one's own": {spec.OpenShift{Version: "4.20", Pools: []string{"worker", "infra"}}, []string{policy,
			policySeen, "nodes/99-worker-pinbox.yaml", "wait worker", "wait infra", "sets/s.yaml"}},
		"only a pool of one's own": {spec.OpenShift{Version: "4.20", Pools: []string{"infra"}}, []string{policy, policySeen,
			"nodes/99-infra-pinbox.yaml", "wait infra", "sets/s.yaml"}},
		"nodes that pin by themselves": {spec.OpenShift{Version: "4.18", Pools: []string{"worker"}}, []string{policy,
			policySeen, "nodes/99-worker-pinbox.yaml", "wait worker"}},
		"sets in preview, no policy": {spec.OpenShift{Version: "4.16", Pools: []string{"worker"}, API: "v1alpha1"},
			[]string{"nodes/99-worker-pinbox.yaml", "wait worker", "sets/s.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			commands := openshift.Apply(test.cluster, "m", []pinset.Set{{Name: "s"}})
			if diff := cmp.Diff(test.want, applied(commands)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			for _, file := range []string{"99-worker-pinbox", "99-infra-pinbox"} {
				compared := strings.Contains(strings.Join(commands, "\n"), "oc get mc "+file+" ")
				if want := strings.Contains(strings.Join(test.want, "\n"), file); compared != want {
					t.Errorf("got %v that %s is compared with what the operator renders, want %v", compared, file, want)
				}
			}
		})
	}
}

// A shell reads the commands, and a folder may have any name.
func TestApplyIsForAShell(t *testing.T) {
	const dir = "a folder's $(name)"
	all := openshift.Apply(spec.OpenShift{Version: "5.0", Podman: true}, dir, []pinset.Set{{Name: "s"}})
	if out, err := exec.Command("sh", "-n", "-c", strings.Join(all, "\n")).CombinedOutput(); err != nil {
		t.Errorf("got %v, %s, want no error", err, out)
	}
	// An API that does not answer is not taken for one that has rendered it.
	for _, command := range all {
		if strings.HasPrefix(command, "(tries=0\nuntil") {
			out, err := exec.Command("sh", "-c", "oc() { return 1; }; sleep() { exit 5; }; "+command).CombinedOutput()
			var code *exec.ExitError
			if !errors.As(err, &code) || code.ExitCode() != 5 {
				t.Errorf("%s: got %v, %s, want that it waits", command, err, out)
			}
		}
	}
	out, err := exec.Command("sh", "-c", "oc() { printf '%s\n' \"$@\"; }; "+all[0]).Output()
	if want := "apply\n--server-side\n-f\n" + dir + "/nodes/node-disruption-policy.yaml\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}
