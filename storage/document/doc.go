// Package document reads streams of YAML documents, or of JSON values, into nodes that keep their
// lines, so that messages can name the line. It bounds what aliases may add, and refuses a key
// that stands twice with different values.
//
// It knows no kinds of objects: builder/source and storage/pinset interpret the nodes.
//
// Start with Read.
package document
