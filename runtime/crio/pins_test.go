package crio_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/crio"
)

// U5 of the Machine Config Operator, TestEnsureCrioPinnedImagesConfigFile: equal
// pins are not written again, others are; and the folder that CRI-O reads never
// has another file.
func TestU5PinsAreWrittenWhenTheyChange(t *testing.T) {
	etc := t.TempDir()
	reloads := 0
	p := &crio.Pins{Dir: etc, Reload: func(context.Context) error {
		reloads++
		entries, err := os.ReadDir(filepath.Join(etc, "crio.conf.d"))
		if err != nil || len(entries) != 1 {
			t.Errorf("at the reload: %v, %v", entries, err)
		}
		return nil
	}}
	if now, exact, _, err := p.Current(); err != nil || now != nil || exact {
		t.Errorf("before: %v, %v", now, err)
	}
	for _, pins := range [][]string{documented, documented[:1], {}} {
		want := images(t, pins...)
		if reloaded, err := p.Apply(t.Context(), want); err != nil || !reloaded {
			t.Fatalf("reloaded %v, %v", reloaded, err)
		}
		before := fixtures.Tree(t, etc)
		written, err := os.Stat(filepath.Join(etc, "crio.conf.d/50-pinned-images"))
		if err != nil {
			t.Fatal(err)
		}
		if reloaded, err := p.Apply(t.Context(), want); err != nil || !reloaded {
			t.Fatalf("again: %v, %v", reloaded, err)
		}
		again, err := os.Stat(filepath.Join(etc, "crio.conf.d/50-pinned-images"))
		if err != nil || !os.SameFile(written, again) || len(fixtures.Tree(t, etc)) != len(before) {
			t.Errorf("equal pins were written again: %v", err)
		}
		if now, exact, _, err := p.Current(); err != nil || !exact || !slices.Equal(now, want) {
			t.Errorf("now %v, %v", now, err)
		}
	}
	if reloads != 6 {
		t.Errorf("%d reloads", reloads)
	}
}

// CRI-O is not told to read what it would die of.
func TestNoReloadOfAConfigurationThatCRIOCannotRead(t *testing.T) {
	for file, content := range map[string]string{
		"crio.conf": "[crio", "crio.conf.d/99": "[crio.image]\npinned_images = [\"*\"]\n",
	} {
		etc := t.TempDir()
		p := &crio.Pins{Dir: etc, Reload: func(context.Context) error { t.Error("it reloads"); return nil }}
		if err := os.Mkdir(filepath.Join(etc, "crio.conf.d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(etc, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if reloaded, err := p.Apply(t.Context(), images(t, documented...)); err != nil || reloaded {
			t.Errorf("reloaded %v, %v", reloaded, err)
		}
		if err := p.Check(images(t, documented...)); !errors.Is(err, crio.ErrConfig) {
			t.Errorf("%v", err)
		}
	}
}

// A complaint counts from the last reload until one that went well.
func TestRefusedReload(t *testing.T) {
	etc, log := t.TempDir(), filepath.Join(t.TempDir(), "crio.log")
	p := &crio.Pins{Dir: etc, Reload: func(context.Context) error { return nil }, Log: crio.LogFile(log)}
	line := func(at time.Time, text string) string {
		return `time="` + at.Format(time.RFC3339Nano) + `" level=error msg="` + text + "\"\n"
	}
	const bad, good = "Unable to reload configuration: bad level", "Configuration reload completed"
	early, late := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if _, err := p.Apply(t.Context(), images(t, documented...)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		log     string
		refused bool
	}{
		"nothing":            {"", false},
		"before":             {line(early, bad), false},
		"after":              {line(early, good) + line(late, bad), true},
		"mended":             {line(late, bad) + line(late, good), false},
		"broken again":       {line(late, bad) + line(late, good) + line(late, bad), true},
		"behind a long past": {strings.Repeat(line(early, good), 10_000) + line(late, bad), true},
	} {
		if err := os.WriteFile(log, []byte(test.log), 0o644); err != nil {
			t.Fatal(err)
		}
		err := p.Refusal(t.Context())
		if (err != nil) != test.refused || err != nil && !strings.Contains(err.Error(), "CRI-O refused to reload: "+bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The process that listens on the socket gets the signal: here, this one.
func TestSignal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "crio.sock")
	if err := crio.ReloadBySignal(t.Context(), socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGHUP)
	defer signal.Stop(got)
	if err := crio.ReloadBySignal(t.Context(), socket); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-time.After(5 * time.Second):
		t.Error("no signal came")
	}
}

func TestReloadCommand(t *testing.T) {
	if err := crio.ReloadByCommand(t.Context(), "true"); err != nil {
		t.Error(err)
	}
	if err := crio.ReloadByCommand(t.Context(), "sh -c exit"); err != nil {
		t.Error(err)
	}
	for line, says := range map[string]string{
		"": "empty", "false": "exit status 1", "/no/such/program": "no such file", "ls /no/such/file": "No such file",
	} {
		if err := crio.ReloadByCommand(t.Context(), line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
