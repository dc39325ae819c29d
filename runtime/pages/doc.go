// Package pages shows the state of a fleet as a page for people: what is there, what is missing, why, and for how long.
// What it shows is decided in package fleet.
//
// Start at Fleet.
package pages
