// Package fault makes errors that say how a program ends with them, and what its user can do.
//
//   - New makes one: the exit code, the text, and the hint. It stands where the error is known, as a variable that
//     callers compare by errors.Is, or in a return.
//   - With gives an error another exit code and hint, where a caller knows better what to do, and Wrap those of its
//     effect.
//   - Of finds what counts in an error: the cause, not its effects. Errors wrap causes after effects, as in
//     fmt.Errorf("%w: %w", effect, cause), so it is the last one. One by With or Wrap counts for all that it wraps.
//
// It knows no package and no error: the commands know no errors of packages either.
package fault
