package node

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinbox/pinbox/runtime"
)

// A pass writes the metrics next to the status, or to another file, for all to read.
func TestStatusIsPublishedWithMetrics(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "textfile/pinbox.prom")
	for _, metrics := range []string{"", other} {
		o := Open(Settings{Set: []string{"status=" + filepath.Join(dir, "status.json"), "metricsFile=" + metrics}})
		s := runtime.Status{Version: runtime.StatusVersion, Time: time.Unix(1_700_000_000, 0), Unpinned: []string{metrics}}
		if err := o.publish(s); err != nil {
			t.Fatal(err)
		}
		if metrics == "" {
			metrics = filepath.Join(dir, "metrics.prom")
		}
		content, err := os.ReadFile(metrics)
		if err != nil || !bytes.Equal(content, s.Metrics()) {
			t.Errorf("got %s, %v, want the metrics of the status", content, err)
		}
		if fi, err := os.Stat(metrics); err != nil || fi.Mode() != 0o644 {
			t.Errorf("got %v, %v, want mode 644", fi, err)
		}
		if left, err := filepath.Glob(filepath.Dir(metrics) + "/*.new*"); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v, want no other file", left, err)
		}
	}
}

// The folder of the metrics is that of another program. A bug was a temporary file with a name that can be foreseen: a
// link of that name led root to any file.
func TestMetricsAreWrittenThroughNoLink(t *testing.T) {
	const content = "what stood there"
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	metrics := filepath.Join(dir, "pinbox.prom")
	for _, link := range []string{"pinbox.prom", "pinbox.prom.new", "pinbox.prom.tmp", ".pinbox.prom.new", ".pinbox.prom.tmp"} {
		if err := os.Symlink(secret, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	o := Open(Settings{Set: []string{"status=" + filepath.Join(t.TempDir(), "status.json"), "metricsFile=" + metrics}})
	s := runtime.Status{Version: runtime.StatusVersion}
	if err := o.publish(s); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(secret)
	if fi, statErr := os.Stat(secret); err != nil || statErr != nil || string(got) != content || fi.Mode() != 0o600 {
		t.Errorf("got %q, %v, %v of another file, want it as it was", got, err, statErr)
	}
	fi, err := os.Lstat(metrics)
	if got, readErr := os.ReadFile(metrics); err != nil || readErr != nil || fi.Mode() != 0o644 || !bytes.Equal(got, s.Metrics()) {
		t.Errorf("got %v with %.20q, %v, %v, want the metrics in a file", fi, got, err, readErr)
	}
}
