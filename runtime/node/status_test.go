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
