package crio

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// ReloadBySignal sends SIGHUP to the process that listens on CRI-O's socket: SO_PEERCRED.
func ReloadBySignal(ctx context.Context, socket string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if peer.Pid <= 1 { // a socket that systemd holds, or a process of another namespace
		return fmt.Errorf("%s: the process that listens is not CRI-O (process %d)", socket, peer.Pid)
	}
	return unix.Kill(int(peer.Pid), unix.SIGHUP)
}
