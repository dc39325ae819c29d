package openshift

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// marker is where an object has the file that differs in each release.
const marker = `'{.spec.config.storage.files[?(@.path=="` + layout.NodeConfigPath + `")].contents.source}'`

// The object of the policy, and a wait for what a path of JSON in it has.
const (
	policyObject  = "machineconfiguration/cluster"
	waitForPolicy = "oc wait " + policyObject + " --timeout=10m --for=jsonpath="
)

// Stage is one step on the way of the manifests to a cluster.
type Stage struct {
	Title string
	// Commands of a shell. Each may be run again.
	Commands []string
	// Wait is what they wait for, and for how long at most.
	Wait string
	// NeedsStore says that the nodes must have the store before.
	NeedsStore bool
}

// Apply are the commands of Stages, one after the other.
func Apply(o spec.OpenShift, dir string, sets []pinset.Set) (all []string) {
	for _, s := range Stages(o, dir, sets) {
		all = append(all, s.Commands...)
	}
	return all
}

// Stages are the commands of a shell that bring what Manifests returns, and sets, from a folder to a cluster that runs.
// Each waits until the operator has done what the one before asks for: MachineConfigs before their policy reboot the
// nodes, and sets before their nodes have the store make the operator pull. The fields are those that the operator
// writes in pkg/operator/sync.go and pkg/controller/node/status.go.
func Stages(o spec.OpenShift, dir string, sets []pinset.Set) (all []Stage) {
	if o.Policies() {
		all = append(all, Stage{Title: "Apply the policy, by which no node reboots, and wait until the operator has read it",
			Wait: "for the operator, at most 10 minutes, twice.",
			Commands: []string{"oc apply --server-side" + files(dir, policyFile),
				waitForPolicy + `'{.status.observedGeneration}'="$(oc get ` + policyObject +
					` -o jsonpath='{.metadata.generation}')"`,
				waitForPolicy + `'{.status.nodeDisruptionPolicyStatus.clusterPolicies.files[?(@.path=="` + layout.NodeConfigPath +
					`")].path}'=` + layout.NodeConfigPath}})
	}
	var configs []string
	for _, pool := range pools(o) {
		configs = append(configs, configFile(pool))
	}
	apply := Stage{Title: "Apply the MachineConfigs, and wait until all nodes have them",
		Wait:     "for each pool at most an hour until the operator has rendered them, and one until its nodes have them.",
		Commands: []string{"oc apply" + files(dir, configs...)}}
	for _, pool := range o.PoolNames() {
		of := pool
		if !slices.Contains(configs, configFile(pool)) {
			of = worker
		}
		rendered := fmt.Sprintf(`"$(oc get mcp/%s -o jsonpath='{.spec.configuration.name}')"`, pool)
		apply.Commands = append(apply.Commands,
			"("+Until(fmt.Sprintf(`m=$(oc get mc %s -o jsonpath=%s) && [ "$m" ] && `+
				`[ "$(oc get mc %s -o jsonpath=%[2]s)" = "$m" ]`, configName(of), marker, rendered))+")",
			fmt.Sprintf("oc wait mcp/%s --timeout=1h --for=jsonpath='{.status.configuration.name}'=%s", pool, rendered))
	}
	all = append(all, apply)
	if commands := ApplySets(o, dir, sets); commands != nil {
		all = append(all, Stage{Title: SetsTitle, Commands: commands, NeedsStore: true})
	}
	if o.Podman {
		all = append(all, Stage{Title: "Show the stores to podman", Commands: []string{"oc apply" + files(dir, podmanDir)},
			NeedsStore: true})
	}
	return all
}

// Until are commands of a shell that wait for a test of a shell to succeed, and exit with 1 after an hour.
func Until(test string) string {
	return "tries=0\nuntil " + test +
		"; do\n  [ $((tries += 1)) -le 720 ] || { echo 'waited an hour: RUNBOOK.md says what to look at' >&2; exit 1; }" +
		"\n  sleep 5\ndone"
}

// SetsTitle is the title of the stage of ApplySets.
const SetsTitle = "Apply the PinnedImageSets, by which the operator pins the images"

// ApplySets are those of Apply for the sets, once the nodes have the store; none where the nodes pin by themselves.
func ApplySets(o spec.OpenShift, dir string, sets []pinset.Set) []string {
	if o.Pins() != layout.PinsOperator || len(sets) == 0 {
		return nil
	}
	var names []string
	for _, set := range sets {
		names = append(names, path.Join(setsDir, pinset.FileName(set.Name)))
	}
	return []string{"oc apply" + files(dir, names...)}
}

// files are flags for files in a folder.
func files(dir string, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(" -f " + quoted(filepath.Join(dir, name)))
	}
	return b.String()
}

// quoted is a word of a shell.
func quoted(word string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("-._/+:@", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
