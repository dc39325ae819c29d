// Package controller advances the rollouts of a cluster: one of its controllers leads, looks at the reports of the
// nodes again and again, and writes what package rollout decides.
//
// It keeps nothing. While no controller runs, nodes stay as they are.
//
// Start with Run.
package controller
