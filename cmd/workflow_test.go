package cmd_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	makeLine   = regexp.MustCompile(`(?m)\bmake ([a-z][a-z-]+)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]+):`)
	checkedBy  = regexp.MustCompile(`\b((?:[a-z]+-)?test|cross|lint|fuzz)\b`)
	weekly     = regexp.MustCompile(`(?m)^weekly: (.*)$`)
	matrix     = regexp.MustCompile(`target: \[(.*)\]`)
)

// The weekly workflow runs each part of `make weekly`.
func TestWeeklyWorkflow(t *testing.T) {
	workflow := page(t, ".github/workflows/weekly.yml")
	jobs := matrix.FindStringSubmatch(workflow)
	parts := weekly.FindStringSubmatch(page(t, "Makefile"))
	if jobs == nil || parts == nil {
		t.Fatalf("got the jobs %q and the parts %q, want some", jobs, parts)
	}
	called := append(strings.Split(jobs[1], ", "), matches(makeLine, workflow)...)
	for _, want := range strings.Fields(parts[1]) {
		if !slices.Contains(called, want) {
			t.Errorf("got the jobs %v, want one for %s, a part of make weekly", called, want)
		}
	}
}

// The workflows of the public repository check what .ci/run checks, by targets that the Makefile has. `make lint` checks
// their syntax.
func TestWorkflowsCallMake(t *testing.T) {
	jobs := matrix.FindStringSubmatch(page(t, ".github/workflows/test.yml"))
	if jobs == nil {
		t.Fatal("got no list of targets in test.yml, want one")
	}
	var called []string
	for _, job := range strings.Split(jobs[1], ", ") {
		called = append(called, strings.Fields(job)[0])
	}
	slices.Sort(called)
	var checks strings.Builder
	for line := range strings.Lines(page(t, ".ci/run")) {
		if _, after, found := strings.Cut(line, "make "); found && !strings.HasPrefix(line, "#") {
			checks.WriteString(after)
		}
	}
	if want := matches(checkedBy, checks.String()); !slices.Equal(called, want) {
		t.Errorf("got the jobs %v of test.yml, want those of .ci/run: %v", called, want)
	}
	targets := matches(makeTarget, page(t, "Makefile"))
	for _, name := range []string{"release", "docs"} {
		called = append(called, matches(makeLine, page(t, ".github/workflows/"+name+".yml"))...)
	}
	for _, target := range called {
		if !slices.Contains(targets, target) {
			t.Errorf("got a call of make %s, want a target of the Makefile", target)
		}
	}
}
