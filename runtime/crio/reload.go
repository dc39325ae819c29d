package crio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// refused begins the log line of a reload that failed: CRI-O, server/server.go.
const refused = "Unable to reload configuration"

// Refusal is the error of the last reload, from CRI-O's log: CRI-O reloads in the background, and
// reports errors nowhere else. It is nil if the log cannot be read.
func (p *Pins) Refusal(ctx context.Context) error {
	if p.Log == nil || p.reloaded.IsZero() {
		return nil
	}
	log, err := p.Log(ctx, p.reloaded)
	if err != nil {
		return nil
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

// loggedAt is the time at the start of a line of CRI-O's log; now if there is none.
func loggedAt(line string) time.Time {
	stamp, _, _ := strings.Cut(strings.TrimPrefix(line, `time="`), `"`)
	if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
		return at
	}
	return time.Now()
}

// ReloadByCommand runs a command that makes CRI-O reload, such as "rc-service crio reload". It is
// split at blanks; there is no shell.
func ReloadByCommand(ctx context.Context, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return errors.New("the command is empty")
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

// LogFile returns a function that reads the end of the log file of a CRI-O that runs with --log.
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

// Journal reads what CRI-O's unit has logged in the minute after a time: the agent runs for months,
// and a reload takes less than a second.
func Journal(ctx context.Context, since time.Time) ([]byte, error) {
	at := func(t time.Time) string { return "@" + strconv.FormatInt(t.Unix(), 10) }
	return exec.CommandContext(ctx, "journalctl", "--unit=crio.service", "--since="+at(since.Add(-time.Second)),
		"--until="+at(since.Add(time.Minute)), "--output=cat", "--no-pager").Output()
}
