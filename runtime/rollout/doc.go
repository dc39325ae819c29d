// Package rollout has waves: an object of the API says in which steps the nodes of a fleet take a change of their sets,
// and how far that has come.
//
// It is pure: package cluster reads and writes the objects, package controller decides with Next again and again, and
// each node decides with Releases whether a change is for it.
//
// Start with Rollout, and with Next.
package rollout
