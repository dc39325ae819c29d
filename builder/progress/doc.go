// Package progress has the hooks by which a caller follows a build or a verification: which step
// has begun, how much of it is done, and which request is repeated.
//
// It does not show anything: cmd/pinbox draws bars or writes lines.
//
// Start at Hooks.
package progress
