// Package spec is the appliance file: its types, their defaults, what is wrong with one, and how it
// is read. docs/appliance.schema.json is made from the types and their comments.
//
// What the fields lead to is the business of the rooms that do it: package builder reads the
// sources, package firstboot renders the node's configuration.
//
// Start at Appliance; Read reads one, New makes one of sources alone.
package spec
