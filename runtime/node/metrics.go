package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/pinbox/pinbox/runtime"
)

// metricsType is the text format of Prometheus.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// scrapeTime bounds a request for the metrics: scrape_timeout of Prometheus is 10 seconds.
const scrapeTime = 10 * time.Second

// metricsServer serves the metrics of the last status.
type metricsServer struct {
	status atomic.Pointer[runtime.Status]
}

// serveMetrics listens on an address of loopback until ctx ends: whoever is on the node may read the metrics, as they
// may read the status; nothing protects them on a network.
func serveMetrics(ctx context.Context, address string, log *slog.Logger) (*metricsServer, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("%w: metrics at %s: it is an address of loopback with a port, as 127.0.0.1:9750",
			runtime.ErrOptions, address)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	m := &metricsServer{}
	server := &http.Server{
		Handler: m, ReadTimeout: scrapeTime, WriteTimeout: scrapeTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics are not served any more", "error", err)
		}
	}()
	return m, nil
}

// ServeHTTP answers GET /metrics; with 503 before the first status.
func (m *metricsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := m.status.Load()
	switch {
	case r.URL.Path != "/metrics":
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "", http.StatusMethodNotAllowed)
	case s == nil:
		http.Error(w, "no pass has ended yet", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", metricsType)
		_, _ = w.Write(s.Metrics()) // who asks may have gone
	}
}
