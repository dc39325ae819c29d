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

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/crio"
)

// As in TestEnsureCrioPinnedImagesConfigFile of the Machine Config Operator, the drop-in is written
// only if the pins have changed. No other file is ever in the folder that CRI-O reads.
func TestPinsAreWrittenWhenTheyChange(t *testing.T) {
	etc := t.TempDir()
	reloads := 0
	p := &crio.Pins{Dir: etc, Reload: func(context.Context) error {
		reloads++
		entries, err := os.ReadDir(filepath.Join(etc, "crio.conf.d"))
		if err != nil || len(entries) != 1 {
			t.Errorf("at the reload: got the files %v, %v, want the drop-in only", entries, err)
		}
		return nil
	}}
	if now, exact, _, err := p.Current(); err != nil || now != nil || exact {
		t.Errorf("without a drop-in: got %v, exact %v, %v, want no pins", now, exact, err)
	}
	for _, pins := range [][]string{documented, documented[:1], {}} {
		want := images(t, pins...)
		if reloaded, err := p.Apply(t.Context(), want); err != nil || !reloaded {
			t.Fatalf("got reloaded %v, %v, want true", reloaded, err)
		}
		before := fixtures.Tree(t, etc)
		written, err := os.Stat(filepath.Join(etc, "crio.conf.d/50-pinned-images"))
		if err != nil {
			t.Fatal(err)
		}
		if reloaded, err := p.Apply(t.Context(), want); err != nil || !reloaded {
			t.Fatalf("equal pins: got reloaded %v, %v, want true", reloaded, err)
		}
		again, err := os.Stat(filepath.Join(etc, "crio.conf.d/50-pinned-images"))
		if err != nil || !os.SameFile(written, again) || len(fixtures.Tree(t, etc)) != len(before) {
			t.Errorf("equal pins: got another file, %v, want the same", err)
		}
		if now, exact, _, err := p.Current(); err != nil || !exact || !slices.Equal(now, want) {
			t.Errorf("got the pins %v, exact %v, %v, want %v", now, exact, err, want)
		}
	}
	if reloads != 6 {
		t.Errorf("got %d reloads, want 6", reloads)
	}
}

// The drop-in has the pins of earlier files, too, which it would else replace, whatever characters they have; but not
// the one that crashes CRI-O. They are not taken for pins of pinbox.
func TestPinsOfEarlierFilesStay(t *testing.T) {
	etc := t.TempDir()
	p := &crio.Pins{Dir: etc, Reload: func(context.Context) error { return nil }}
	want := images(t, documented[:2]...)
	for _, earlier := range []string{
		`["quay.io/site/*", "*cilium*"]`, `["` + documented[0] + `", "` + documented[2] + `"]`, `["*"]`, `["*", "a\"b\\c\u0001<d>"]`, `[]`,
	} {
		if err := os.MkdirAll(filepath.Join(etc, "crio.conf.d"), 0o755); err != nil {
			t.Fatal(err)
		}
		content := []byte("[crio.image]\npinned_images = " + earlier + "\n")
		if err := os.WriteFile(filepath.Join(etc, "crio.conf.d/20-site"), content, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, exact, _, err := p.Current(); err != nil || exact {
			t.Errorf("%s: got exact %v, %v, want a drop-in that is not as it should be", earlier, exact, err)
		}
		if reloaded, err := p.Apply(t.Context(), want); err != nil || !reloaded {
			t.Fatalf("%s: got reloaded %v, %v, want true", earlier, reloaded, err)
		}
		now, exact, others, err := p.Current()
		if err != nil || !exact || !slices.Equal(now, want) {
			t.Errorf("%s: got the pins %v, exact %v, %v, want %v", earlier, now, exact, err, want)
		}
		config, err := crio.ReadConfig(os.DirFS(etc))
		if err != nil || config.PinnedBy != crio.PinnedImagesPath {
			t.Fatalf("%s: got the pins of %s, %v, want those of the drop-in", earlier, config.PinnedBy, err)
		}
		if got := config.PinnedImages[2:]; !slices.Equal(got, config.Earlier) || slices.Contains(got, "*") {
			t.Errorf("%s: got the pins %q after those of pinbox, want %q", earlier, got, config.Earlier)
		}
		if site := "quay.io/site/x:1"; others(site) != strings.Contains(earlier, "site") {
			t.Errorf("%s: got that another file pins %s: %v", earlier, site, others(site))
		}
	}
}

// On a full disk, the pins stay as they were: CRI-O reads a whole drop-in at its next start.
func TestPinsOnAFullDisk(t *testing.T) {
	fixtures.NeedRoot(t)
	etc := t.TempDir()
	fixtures.Run(t, "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", etc) // the drop-in
	t.Cleanup(func() { fixtures.Run(t, "umount", etc) })
	p := &crio.Pins{Dir: etc, Reload: func(context.Context) error { return nil }}
	if _, err := p.Apply(t.Context(), images(t, documented[0])); err != nil {
		t.Fatal(err)
	}
	before := fixtures.Tree(t, etc)
	p.Reload = func(context.Context) error {
		t.Error("got a reload, want none")
		return nil
	}
	if _, err := p.Apply(t.Context(), images(t, documented...)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
	if diff := cmp.Diff(before, fixtures.Tree(t, etc)); diff != "" {
		t.Errorf("got other files (-before +after):\n%s", diff)
	}
}

// CRI-O does not reload a configuration that it would refuse or crash on.
func TestNoReloadOfAConfigurationThatCRIOCannotRead(t *testing.T) {
	for file, content := range map[string]string{
		"crio.conf": "[crio", "crio.conf.d/99": "[crio.image]\npinned_images = [\"*\"]\n",
	} {
		t.Run(file, func(t *testing.T) {
			etc := t.TempDir()
			p := &crio.Pins{Dir: etc, Reload: func(context.Context) error { t.Error("got a reload, want none"); return nil }}
			if err := os.Mkdir(filepath.Join(etc, "crio.conf.d"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(etc, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if reloaded, err := p.Apply(t.Context(), images(t, documented...)); err != nil || reloaded {
				t.Errorf("got reloaded %v, %v, want false", reloaded, err)
			}
			if err := p.Check(images(t, documented...)); !errors.Is(err, crio.ErrConfig) {
				t.Errorf("got %v, want %v", err, crio.ErrConfig)
			}
		})
	}
}

// Refusal returns the last error in the log since the last reload, unless a later reload succeeded.
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
		"nothing":          {"", false},
		"before":           {line(early, bad), false},
		"after":            {line(early, good) + line(late, bad), true},
		"repaired":         {line(late, bad) + line(late, good), false},
		"broken again":     {line(late, bad) + line(late, good) + line(late, bad), true},
		"after a long log": {strings.Repeat(line(early, good), 10_000) + line(late, bad), true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(log, []byte(test.log), 0o644); err != nil {
				t.Fatal(err)
			}
			err := p.Refusal(t.Context())
			if (err != nil) != test.refused || err != nil && !strings.Contains(err.Error(), "CRI-O refused to reload: "+bad) {
				t.Errorf("got %v, want a refusal: %v", err, test.refused)
			}
		})
	}
}

// The process that listens on the socket gets SIGHUP: in this test, the test itself.
func TestSignal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "crio.sock")
	if err := crio.ReloadBySignal(t.Context(), socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: got %v, want %v", err, os.ErrNotExist)
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
	fixtures.Receive(t, "signal", got)
}

func TestReloadCommand(t *testing.T) {
	if err := crio.ReloadByCommand(t.Context(), "true"); err != nil {
		t.Error(err)
	}
	if err := crio.ReloadByCommand(t.Context(), "sh -c exit"); err != nil {
		t.Error(err)
	}
	for line, want := range map[string]string{
		"": "empty", "false": "exit status 1", "/no/such/program": "no such file", "ls /no/such/file": "No such file",
	} {
		if err := crio.ReloadByCommand(t.Context(), line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}
