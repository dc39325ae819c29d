// Package environment is what the containers libraries take from the process and the machine
// without being asked to: home folder, variables, /proc. They fail, or look in wrong places, where
// these are missing, as in containers and chroots.
//
// It reads no configuration of pinbox. Start with Prepare, which a program calls before it uses
// the libraries.
package environment
