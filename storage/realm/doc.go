// Package realm decides to which servers of tokens the password for a registry may go: only to the registry's own
// domain, by HTTPS. Start with Of. It sends no request itself: containers/image does.
package realm
