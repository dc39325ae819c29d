// Package fanout writes the same bytes to several places at the same time, such as a file and a hash.
//
// Start with Writer.
package fanout
