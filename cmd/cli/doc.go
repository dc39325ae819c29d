// Package cli is what the command lines of pinbox and pinbox-node share, so that both
// speak in the same way.
//
// Start at Program, which runs a command and turns its error into a message, a hint and
// an exit code. Each program has a table of Rows that says what its errors mean; the exit
// codes and the rows that both have are here.
//
//   - A result goes to stdout by Output, the flag --output: as text, JSON or YAML. JSON and
//     YAML have the same keys, and sizes in them are integers, in bytes. Text has sizes as
//     storage/bytesize writes them, in KiB, MiB and GiB.
//   - Progress, notes and errors go to stderr. Where --output is not text, each is a JSON
//     object on a line of its own, for YAML as well.
//   - Paths to write to are flags -o and --out.
//   - Under puts flags under a heading of the help. A flag's usage is a clause that can be
//     understood without its neighbours, in lower case and without a full stop.
//   - Files, Folders and Words say how a shell completes the value of a flag, FileArgs how
//     it completes arguments.
//
// It knows nothing of images and stores: what is printed stands in each program.
package cli
