// Package sites decides which deltas to make for sites that nothing but their reports is known of: the fewest that
// serve all of them. It is pure, and makes no delta.
//
// Start with New.
package sites
