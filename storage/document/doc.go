// Package document reads streams of YAML documents or JSON values into YAML nodes with line numbers,
// so that messages can name the line. It limits the size of documents and of what aliases expand to,
// and refuses a key that occurs twice with different values.
//
// It does not know kinds of objects: builder/source and storage/pinset interpret the nodes.
//
// Start with Read.
package document
