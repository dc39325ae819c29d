package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// pinboxDelta runs `pinbox delta` and decodes what it prints.
func pinboxDelta(t *testing.T, code int, args ...string) (r builder.SitesResult) {
	t.Helper()
	cmd := exec.Command(fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), append([]string{
		"delta", "--output", "json", "--insecure-registry", "127.0.0.1", "--cache-dir", t.TempDir(),
	}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("pinbox delta %v: got exit code %d, want %d\n%s%s", args, got, code, out, stderr.String())
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// release are the options of a release of the appliance edge.
func release(t *testing.T, number int64, pins []string) builder.Options {
	t.Helper()
	o := appliance.Options(t, sample.Set("worker", pins...))
	o.Appliance.Metadata.Name, o.Appliance.Metadata.Release = "edge", number
	return o
}

// applianceFile writes an appliance file of edge.
func applianceFile(t *testing.T, number int64, pins []string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "appliance.yaml")
	text := fmt.Sprintf("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: edge, release: %d}\n"+
		"spec: {sources: [{pinnedImageSets: [worker.yaml]}]}\n", number)
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "worker.yaml"), sample.Set("worker", pins...), 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}

// deltasOf returns the name of the delta of each site.
func deltasOf(r builder.SitesResult) map[string]string {
	names := map[string]string{}
	for _, d := range r.Deltas {
		for _, site := range d.Sites {
			names[site] = filepath.Base(d.Out)
		}
	}
	return names
}

// Sites that nothing is known of but the reports that came home on a stick get what they lack: of three nodes with
// other releases, and one without a store, each that can be served attaches its delta and has all images, without a
// registry.
func TestDeltasOfReports(t *testing.T) {
	t.Parallel()
	registry, access := appliance.Registry(t)
	app := func(sizes ...int) string { return push(t, registry, "app", sizes...) }
	tool := push(t, registry, "tool", 60_000)
	first, second := []string{app(50_000, 1_000), tool}, []string{app(50_000, 2_000)}
	next := []string{app(50_000, 2_000, 3_000), tool}
	one, both := release(t, 1, first), release(t, 2, second)
	sites := map[string]*crio.Node{
		"site1": appliance.Boot(t, one, ""), "site2": appliance.Boot(t, release(t, 2, second), ""),
		"site3": appliance.Boot(t, release(t, 1, first), ""), "site4": appliance.Bare(t),
	}
	both.From = []string{one.Out}
	if _, err := builder.Delta(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	reports := t.TempDir()
	report := func(name string) {
		t.Helper()
		checkRun(t, sites[name], 0, "report --set nodeName="+name+" -o "+filepath.Join(reports, name+".json"))
	}
	for name, n := range sites {
		n.Start()
		if name == "site3" {
			checkRun(t, n, 0, "attach "+both.Out)
		}
		report(name)
	}
	out, args := filepath.Join(t.TempDir(), "deltas"), []string{
		"--from", reports, "-c", applianceFile(t, 3, next), "--node-binary", one.NodeBinary,
	}
	want := map[string]string{"site1": "delta-1", "site2": "delta-2", "site3": "delta-1"}
	checkDeltas(t, pinboxDelta(t, 1, append(args, "-o", out)...), want, 2, 2)
	single := pinboxDelta(t, 1, append(args, "-o", filepath.Join(t.TempDir(), "one"), "--max-deltas", "1")...)
	checkDeltas(t, single, map[string]string{"site1": "delta-1", "site2": "delta-1", "site3": "delta-1"}, 3)
	fixtures.Run(t, fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), "verify", filepath.Join(out, "delta-1"),
		"--base", one.Out)
	access.Take()
	for site, delta := range want {
		n := sites[site]
		if checkRun(t, n, 0, "attach "+filepath.Join(out, delta)); !hasAll(readStatus(n), next) {
			t.Errorf("%s: got %+v, want all images pinned", site, states(readStatus(n)))
		}
		report(site) // the receipt
	}
	if requests := access.Take(); len(requests) != 0 {
		t.Errorf("got the requests %v of nodes, want none", requests)
	}
	if err := os.Remove(filepath.Join(reports, "site4.json")); err != nil {
		t.Fatal(err)
	}
	again := pinboxDelta(t, 0, append(args, "-o", filepath.Join(t.TempDir(), "none"))...)
	if len(again.Done) != 3 || len(again.Deltas) != 0 {
		t.Errorf("got %+v, want that all sites have the release", again)
	}
}

// checkDeltas checks which delta each site has, and how many layers are in each delta.
func checkDeltas(t *testing.T, r builder.SitesResult, want map[string]string, layers ...int) {
	t.Helper()
	if diff := cmp.Diff(want, deltasOf(r)); diff != "" || len(r.Unserved) != 1 || r.Unserved[0].Site != "site4" {
		t.Fatalf("got %+v, want none for site4 (-want +got):\n%s", r, diff)
	}
	for i, d := range r.Deltas {
		if d.New.Layers != layers[i] {
			t.Errorf("%s: got %d layers, want %d", d.Out, d.New.Layers, layers[i])
		}
	}
}

// hasAll reports whether a node has images pinned.
func hasAll(s runtime.Status, pins []string) bool {
	all := states(s)
	return !slices.ContainsFunc(pins, func(pin string) bool { return all[pin] != runtime.Pinned })
}
