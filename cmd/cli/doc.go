// Package cli has what the command lines of pinbox and pinbox-node share: running a command,
// help, completion, progress, results and errors.
//
// Start at Program, which runs a command and turns its error into a message, a hint and
// an exit code. Package fault has made the error with both; each program adds the errors of the system.
//
//   - A result goes to stdout by Output, the flag --output: as text, JSON or YAML. JSON and
//     YAML have the same keys, and sizes in them are integers, in bytes. Text has sizes as
//     storage/bytesize writes them, in KiB, MiB and GiB.
//   - Progress, notes and errors go to stderr. Where --output is not text, each is a JSON
//     object on its own line, also with --output yaml.
//   - What is written can be shown on a terminal: controls, which can come from names of others,
//     are escaped. Content writes a file as it is.
//   - Paths to write to are flags -o and --out.
//   - Under puts flags under a heading of the help. A flag's usage is a clause that can be
//     understood alone, in lower case and without a full stop.
//   - A shell completes the value of a flag by its placeholder, DIR, FILE, PATH or DISK, unless
//     Files or Words set something else. FileArgs sets how it completes arguments.
//
// It does not know images and stores: the texts are in the two programs.
package cli
