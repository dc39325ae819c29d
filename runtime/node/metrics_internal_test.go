package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/loopback"
	"github.com/pinbox/pinbox/runtime"
)

// The metrics are served on loopback alone, and only while the service runs.
func TestMetricsAreServedOnLoopback(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:9750", "localhost:9750", "9750", ":9750"} {
		if _, err := serveMetrics(t.Context(), address, log); !errors.Is(err, runtime.ErrOptions) {
			t.Errorf("%s: got %v, want that it is refused", address, err)
		}
	}
	port, err := loopback.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer port.Release()
	address := port.Host()
	l, err := port.Listen()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serveMetrics(t.Context(), address, log); err == nil {
		t.Error("got no error for an address that is taken")
	}
	_ = l.Close()
	ctx, end := context.WithCancel(t.Context())
	m, err := serveMetrics(ctx, address, log)
	if err != nil {
		t.Fatal(err)
	}
	request := func(method, path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(content) + fmt.Sprint(err)
	}
	if code, text := request("GET", "/metrics"); code != http.StatusServiceUnavailable {
		t.Errorf("before a pass: got %d %s, want 503", code, text)
	}
	s := runtime.Status{Time: time.Unix(5, 0)}
	m.status.Store(&s)
	if code, text := request("GET", "/metrics"); code != http.StatusOK || text != string(s.Metrics())+fmt.Sprint(nil) {
		t.Errorf("got %d %s, want the metrics", code, text)
	}
	if code, _ := request("POST", "/metrics"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d, want 405", code)
	}
	if code, _ := request("GET", "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("another path: got %d, want 404", code)
	}
	end()
	fixtures.Until(t, func() error {
		if code, text := request("GET", "/metrics"); code != 0 || !strings.Contains(text, "refused") {
			return fmt.Errorf("after the service has ended: got %d %s, want no answer", code, text)
		}
		return nil
	})
}
