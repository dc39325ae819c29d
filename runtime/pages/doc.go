// Package pages shows the state of a node, and of a fleet, as pages for people: what is there, what is missing, why,
// and for how long. What they show is decided in the packages runtime and fleet.
//
// Start at Node and Fleet.
package pages
