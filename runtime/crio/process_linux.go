package crio

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ReloadBySignal sends SIGHUP to the process that listens on CRI-O's socket.
func ReloadBySignal(ctx context.Context, socket string) error {
	pid, err := listener(ctx, socket)
	if err != nil {
		return err
	}
	return unix.Kill(pid, unix.SIGHUP)
}

// Ask asks the process that listens on a socket what it runs with, and how it was started.
func (e *Effective) Ask(ctx context.Context, socket string) {
	running, err := Running(ctx, socket)
	if err != nil {
		return
	}
	e.Running = &running
	e.Service, _ = RunningService(ctx, socket) // of another namespace, it is not known
}

// RunningService is how the process that listens on CRI-O's socket was started: proc(5).
func RunningService(ctx context.Context, socket string) (Service, error) {
	pid, err := listener(ctx, socket)
	if err != nil {
		return Service{}, err
	}
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return Service{}, err
	}
	variables, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return Service{}, err
	}
	s := Service{env: map[string]setting{}}
	by := fmt.Sprintf("CRI-O (process %d)", pid)
	s.set(by, strings.Split(string(variables), "\x00"))
	for n, arg := range strings.Split(strings.TrimSuffix(string(arguments), "\x00"), "\x00") {
		if n == 0 {
			s.Program = arg
			continue
		}
		s.args = append(s.args, setting{arg, by})
	}
	return s, nil
}

// listener is the process that listens on a socket: SO_PEERCRED in unix(7).
func listener(ctx context.Context, socket string) (pid int, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	if peer.Pid <= 1 { // a socket that systemd holds, or a process of another namespace
		return 0, fmt.Errorf("%s: the process that listens is not CRI-O (process %d)", socket, peer.Pid)
	}
	return int(peer.Pid), nil
}
