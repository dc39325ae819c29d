package systemd

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Unit is the name of a service.
type Unit string

// Loaded reports whether systemd has the service.
func (u Unit) Loaded(ctx context.Context) bool {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	state, err := conn.GetUnitPropertyContext(ctx, string(u), "LoadState")
	return err == nil && state.Value.Value() == "loaded"
}

// Stop stops the service, and waits until it has ended.
func (u Unit) Stop(ctx context.Context) error {
	return u.job(ctx, (*dbus.Conn).StopUnitContext)
}

// Restart stops the service and starts it, and waits until it has started.
func (u Unit) Restart(ctx context.Context) error {
	return u.job(ctx, (*dbus.Conn).RestartUnitContext)
}

// Begin restarts the service, and does not wait for it.
func (u Unit) Begin(ctx context.Context) error {
	return u.job(ctx, func(conn *dbus.Conn, ctx context.Context, name, mode string, done chan<- string) (int, error) {
		done <- "done"
		return conn.RestartUnitContext(ctx, name, mode, nil)
	})
}

// Start starts the service, and waits until it has started.
func (u Unit) Start(ctx context.Context) error {
	return u.job(ctx, (*dbus.Conn).StartUnitContext)
}

func (u Unit) job(
	ctx context.Context, job func(*dbus.Conn, context.Context, string, string, chan<- string) (int, error),
) error {
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("D-Bus: %w", err)
	}
	defer conn.Close()
	return wait(ctx, string(u), func(ctx context.Context, name, mode string, done chan<- string) (int, error) {
		return job(conn, ctx, name, mode, done)
	})
}
