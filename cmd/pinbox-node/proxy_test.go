package main

import (
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// httpProxy is a proxy that forwards all requests to one host. It returns its URL, and the number of requests.
func httpProxy(t *testing.T, host string) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		requests.Add(1)
		r.Out.URL.Scheme, r.Out.URL.Host = "http", host
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL, requests
}

// The registry can be reached by a proxy alone: pinbox-node takes that of node.env, CRI-O that of its unit. An image
// that only CRI-O reaches is pulled, too.
func TestProxy(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	const host = "registry.invalid:5000"
	a, b = strings.Replace(a, registry.Host, host, 1), strings.Replace(b, registry.Host, host, 1)
	n := appliance.Bare(t)
	if err := os.WriteFile(n.Path("registries.conf"),
		[]byte("[[registry]]\nlocation = \""+host+"\"\ninsecure = true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	url, requests := httpProxy(t, registry.Host)
	n.Env = []string{"HTTP_PROXY=" + url, "HTTPS_PROXY=" + url}
	n.Start()
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	if r := n.Do("plan"); r.Code != 0 || !strings.Contains(r.Out, a) || requests.Load() == 0 {
		t.Errorf("plan with the proxy: got exit code %d after %d requests, want 0\n%s%s", r.Code, requests.Load(), r.Out, r.Err)
	}
	healthy(t, n)
	n.Env = nil // CRI-O has them still
	n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
	if r := n.Do("plan"); r.Code != 1 || !strings.Contains(r.Out, "registry.invalid") {
		t.Errorf("plan without the proxy: got exit code %d, want 1 and the host\n%s%s", r.Code, r.Out, r.Err)
	}
	before := requests.Load()
	if healthy(t, n); requests.Load() == before {
		t.Error("got no request to the proxy, want those of CRI-O")
	}
}
