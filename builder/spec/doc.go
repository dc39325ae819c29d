// Package spec reads and validates the appliance file. docs/appliance.schema.json is generated from its types
// and their comments.
//
// It does not read the sources that the file lists, which package source does, and does not render the node's
// configuration, which package firstboot does.
//
// Start at Appliance. Read reads a file, New makes an appliance of sources alone.
package spec
