package crio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// refused is how CRI-O begins its complaint about a reload: server/server.go.
const refused = "Unable to reload configuration"

// Refusal is what CRI-O says against the last reload. It reloads in the
// background and tells only its log.
func (p *Pins) Refusal(ctx context.Context) error {
	if p.Log == nil || p.reloaded.IsZero() {
		return nil
	}
	log, err := p.Log(ctx, p.reloaded)
	if err != nil {
		return nil // a log that cannot be read accuses nobody
	}
	last := ""
	for line := range strings.Lines(string(log)) {
		switch {
		case loggedAt(line).Before(p.reloaded):
		case strings.Contains(line, refused):
			last = line[strings.Index(line, refused):]
		case strings.Contains(line, "Configuration reload completed"):
			last = ""
		}
	}
	if last == "" {
		return nil
	}
	return fmt.Errorf("CRI-O refused to reload: %s", strings.TrimSuffix(strings.TrimSpace(last), `"`))
}

// loggedAt is the time that a line of CRI-O's log begins with, or now.
func loggedAt(line string) time.Time {
	stamp, _, _ := strings.Cut(strings.TrimPrefix(line, `time="`), `"`)
	if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
		return at
	}
	return time.Now()
}

// ReloadBySignal has CRI-O reload by SIGHUP. The kernel says which process listens on
// the socket.
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
		return fmt.Errorf("%s: it is not CRI-O that listens there (process %d)", socket, peer.Pid)
	}
	return unix.Kill(int(peer.Pid), unix.SIGHUP)
}

// ReloadByCommand has CRI-O reload by a command, as "rc-service crio reload". It is split
// at blanks; no shell is involved.
func ReloadByCommand(ctx context.Context, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return errors.New("an empty command")
	}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if out = bytes.TrimSpace(out); err != nil && len(out) > 0 {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	return nil
}

// LogFile reads the end of what CRI-O, started with --log, has written to a file.
func LogFile(path string) func(context.Context, time.Time) ([]byte, error) {
	return func(context.Context, time.Time) ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if fi, err := f.Stat(); err == nil && fi.Size() > maxLog {
			if _, err := f.Seek(-maxLog, io.SeekEnd); err != nil {
				return nil, err
			}
		}
		return io.ReadAll(io.LimitReader(f, maxLog))
	}
}

// maxLog is how much of a log is read, in bytes: a reload is recent.
const maxLog = 256 << 10

// Journal reads what CRI-O's unit has logged since a time, and at most a minute
// later: the agent lives for months, a reload takes less than a second.
func Journal(ctx context.Context, since time.Time) ([]byte, error) {
	at := func(t time.Time) string { return "@" + strconv.FormatInt(t.Unix(), 10) }
	return exec.CommandContext(ctx, "journalctl", "--unit=crio.service", "--since="+at(since.Add(-time.Second)),
		"--until="+at(since.Add(time.Minute)), "--output=cat", "--no-pager").Output()
}
