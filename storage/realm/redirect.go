package realm

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	imgtypes "go.podman.io/image/v5/types"
)

// Guard makes a source of the library send credentials to the server that they are for, and not to others to which
// that one redirects a request: by itself, net/http sends them to each port and scheme of the same host, and to hosts
// below it. The library has no option for it (detectPropertiesHelper in docker/docker_client.go), and uses its
// default for the requests before there is a source: until Guard is called, check refuses what would take credentials
// along.
func (r *Realms) Guard(src imgtypes.ImageSource) {
	client := Hidden[*http.Client](src, "c", "client")
	if client == nil || *client == nil { // the fields have changed: check goes on
		return
	}
	(*client).CheckRedirect = checkRedirect
	r.mu.Lock()
	defer r.mu.Unlock()
	r.guarded = true
}

const maxRedirects = 10 // as net/http

// checkRedirect is for http.Client.CheckRedirect.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", len(via))
	}
	if server(req.URL) != server(via[0].URL) {
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
		req.Header.Del("Referer") // which has the query of the URL before
	}
	return nil
}

// server is the scheme, host and port of a URL.
func server(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Hidden returns a field of a struct behind pointers, by the names of fields on the way there; nil if there is no such
// field of type T.
func Hidden[T any](v any, fields ...string) *T {
	at := reflect.ValueOf(v)
	for _, field := range fields {
		if at = reflect.Indirect(at); at.Kind() != reflect.Struct {
			return nil
		}
		at = at.FieldByName(field)
	}
	if !at.IsValid() || at.Type() != reflect.TypeFor[T]() || !at.CanAddr() {
		return nil
	}
	return (*T)(at.Addr().UnsafePointer())
}
