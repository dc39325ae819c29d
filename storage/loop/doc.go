// Package loop makes read-only loop devices of parts of files. It does not mount them, and finds none that
// others made.
//
// mount(8) is not used for these: it refuses a part of a file if another part, or all of the file, is
// mounted.
//
// Start with Open.
package loop
