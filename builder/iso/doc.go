// Package iso edits CoreOS live ISOs in place, and writes media that hold data only. It
// adds files below the folder pinbox, replaces the Ignition config and the kernel
// arguments, and can undo that. Every byte of the base keeps its place, except the few
// that describe what has changed.
//
// It does not read ISO 9660 itself, which storage/iso9660 does, and it does not build
// images: it copies one. Start with Apply and Create; OpenFile and Info tell what an
// image holds.
package iso
