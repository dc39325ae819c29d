package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/runbook"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
)

// The commands of runbooks do on a node what they say: ssh leads to it, and who logs in is not root without sudo. A bug
// was that the script waited for ever for a mounted store, whose folders are for root alone.
func TestRunbookOfACluster(t *testing.T) {
	for name, thin := range map[string]bool{"delta": false, "thin delta": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, pins := fixtures.Samples(t)
			o := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Docker))
			cluster := spec.OpenShift{Version: "4.20", Pools: []string{"worker"}}
			n := machineConfig(t, o, cluster)
			next := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Mixed))
			next.From, next.Thin, next.Appliance.Spec.OpenShift = []string{o.Out}, thin, &cluster
			later := appliance.Options(t, sample.Set("worker", pins.Pause, pins.Mixed))
			later.Appliance.Spec.OpenShift = &cluster
			later.Appliance.Spec.Node.Store.Path = filepath.Join(o.Out, layout.StoreFile) // as machineConfig has it
			appliance.Build(t, later)
			r, err := builder.Delta(t.Context(), next)
			if err != nil {
				t.Fatal(err)
			}
			if err := registry.Close(); err != nil {
				t.Fatal(err)
			}
			n.Start()
			mco := operator{t, n}
			mco.manages("worker", "4.20.1")
			a := administrator(t, n)
			if calls := a.run(o.Out); !slices.Contains(calls, "oc apply -f manifests/sets/worker-sample.yaml") {
				t.Errorf("got the calls %q, want the set applied", calls)
			}
			mco.pins(pins.Pause, pins.Docker)
			healthy(t, n)
			a.refuses(later.Out, "has the store of another release: it gets the next one by pinbox delta")
			healthy(t, n)
			for run, attaches := range []bool{true, false} {
				calls := strings.Join(a.run(next.Out, filepath.Join(next.Out, r.Store)), "\n")
				attaches = attaches || thin // its digest is not that of the store which is made of it
				if got := strings.Contains(calls, "pinbox-node attach"); got != attaches ||
					!strings.Contains(calls, "oc apply -f manifests/sets/worker-sample.yaml") {
					t.Errorf("run %d: got the calls\n%s\nwant the set, and attach: %v", run+1, calls, attaches)
				}
			}
			mco.pins(pins.Pause, pins.Mixed)
			healthy(t, n)
		})
	}
}

// admin has an oc that agrees to all, and an ssh to the node, in a folder of programs.
type admin struct {
	t   *testing.T
	env []string
	log string
}

func administrator(t *testing.T, n *crio.Node) admin {
	t.Helper()
	dir := t.TempDir()
	a := admin{t: t, log: filepath.Join(dir, "log")}
	cmd := n.Pinbox("VERB")
	a.env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	quoted := func(words []string) string {
		for i, w := range words {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		return strings.Join(words, " ")
	}
	enter := slices.Index(cmd.Args, "--") + 1
	say := "#!/bin/sh\necho \"${0##*/} $*\" >>" + a.log + "\n"
	for name, text := range map[string]string{
		"ssh": say + "case $2 in sudo*) as= ;; *) as='setpriv --reuid 65534 --regid 65534 --clear-groups --' ;; esac\n" +
			"exec " + quoted(slices.Clone(cmd.Args[:enter])) + ` $as sh -c "$2"` + "\n",
		"sudo":        "#!/bin/sh\nexec \"$@\"\n",
		"pinbox-node": say + "verb=$1; shift\nexec '" + cmd.Args[enter] + "' \"$verb\" " + quoted(slices.Clone(cmd.Args[enter+2:])) + " \"$@\"\n",
		"oc":          say + "[ \"$1 $2\" != 'get nodes' ] || echo node12\n[ \"$1 $2\" != 'get mc' ] || echo same\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return a
}

// refuses runs the script of a folder that must not go on: a bug was that it wrote another appliance's store over the
// one that the node has mounted.
func (a admin) refuses(dir, want string) {
	a.t.Helper()
	cmd := exec.Command("sh", filepath.Join(dir, runbook.Script))
	cmd.Env = a.env
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		a.t.Errorf("%s: got %v, want %q in\n%s", cmd, err, want, out)
	}
}

// run runs the script of a folder, and returns what it has called.
func (a admin) run(dir string, args ...string) (calls []string) {
	a.t.Helper()
	cmd := exec.Command("sh", append([]string{filepath.Join(dir, runbook.Script)}, args...)...)
	cmd.Env = a.env
	if err := os.WriteFile(a.log, nil, 0o666); err != nil {
		a.t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	text, err := os.ReadFile(a.log)
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
