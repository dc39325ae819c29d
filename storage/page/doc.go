// Package page writes pages for people: a frame and the parts of its body, as one HTML file that needs no other file
// and no network. What stands in them may come from anybody: it is shown as text, and the policy of a page lets only
// its own scripts run.
//
// Start at Page.Write. What fills a store is on a page of builder/inspect, and the state of a fleet on that of
// runtime/pages.
package page
