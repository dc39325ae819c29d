// Package systemd talks to the service manager over D-Bus: it reloads units, starts and stops
// mounts, and says that this service is ready, alive, and what it does.
//
// It renders the mount units of attached stores, but no units of the first boot: those are package
// ignition's.
//
// Start with Reload, Mounter and Service.
package systemd
