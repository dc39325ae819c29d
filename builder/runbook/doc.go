// Package runbook says how what was built gets to its nodes: RUNBOOK.md for a person, and runbook.sh for a shell, which
// may be killed at each step and run again.
//
// It runs nothing and writes no file. The commands for a cluster are those of package builder/openshift.
//
// Start at Steps.
package runbook
