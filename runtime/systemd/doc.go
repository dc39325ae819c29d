// Package systemd talks to the service manager over D-Bus: it reloads units, starts and stops
// mounts, and reports the state of this service.
//
// It renders the mount units of attached stores, but not the units of the first boot: those are in
// package ignition.
//
// Start with Reload, Mounter and Service.
package systemd
