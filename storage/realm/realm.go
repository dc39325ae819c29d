package realm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	imgtypes "go.podman.io/image/v5/types"
	"golang.org/x/net/publicsuffix"
)

// Text is in the error of a request that is refused: the library drops the types of errors.
const Text = "wants its password sent to"

// Realms decides where the password for an image's registry, or for a mirror of it, may go. The
// library sends it to any URL that the registry names in WWW-Authenticate (getBearerToken and
// getBearerTokenOAuth2 in docker/docker_client.go of containers/image). SystemContext.DockerProxy
// is called with the URL of each request before the request is sent.
type Realms struct {
	mu sync.Mutex
	// endpoints are one for each host. There are few, and maps of them would take 1 KB for each repository.
	endpoints []endpoint
	// guarded means that no redirect takes a password with it: Guard.
	guarded bool
	// at is the endpoint whose /v2/ was requested last: the library tries one after the other. nil before the first.
	at *endpoint
}

// endpoint is a registry or a mirror. The zero value has no password.
type endpoint struct {
	host     string // HOST or HOST:PORT
	insecure bool
	// password is true if there are credentials for it, identity if they are an identity token: that
	// is sent in the body of a POST.
	password, identity bool

	// pinged means that its /v2/ was requested, and content that something below was.
	pinged, content bool
	// realm is the first request for a token; nil before. A registry cannot make a server of tokens forgotten, since
	// what looks like a new beginning may be a redirect.
	realm *url.URL
}

// Of returns the realms for an image with its mirrors. It runs helpers for credentials, which have so long to answer.
func Of(
	ctx context.Context, sys *imgtypes.SystemContext, ref imgtypes.ImageReference, limit time.Duration,
) (*Realms, error) {
	named := ref.DockerReference()
	registry, err := sysregistriesv2.FindRegistry(sys, named.Name())
	if err != nil {
		return nil, err
	}
	if registry == nil {
		registry = &sysregistriesv2.Registry{
			Endpoint: sysregistriesv2.Endpoint{Location: named.Name()}, Prefix: named.Name(),
		}
	}
	sources, err := registry.PullSourcesFromReference(named)
	if err != nil {
		return nil, err
	}
	unverified := sys.DockerInsecureSkipTLSVerify == imgtypes.OptionalBoolTrue
	r := &Realms{}
	for _, s := range sources {
		secret, err := credentials(ctx, sys, s.Reference, limit)
		if err != nil {
			return nil, err
		}
		e := endpoint{
			host: reference.Domain(s.Reference), insecure: s.Endpoint.Insecure || unverified,
			password: secret != imgtypes.DockerAuthConfig{}, identity: secret.IdentityToken != "",
		}
		if e.host == "docker.io" {
			e.host = "registry-1.docker.io" // as newDockerClient does
		}
		r.add(e)
	}
	return r, nil
}

// add adds an endpoint. If its host is there, it is that of another repository.
func (r *Realms) add(e endpoint) {
	other := r.of(e.host)
	if other == nil {
		r.endpoints = append(r.endpoints, e)
		return
	}
	other.insecure = other.insecure && e.insecure
	other.password, other.identity = other.password || e.password, other.identity || e.identity
}

// of returns the endpoint of a host; nil if there is none.
func (r *Realms) of(host string) *endpoint {
	n := slices.IndexFunc(r.endpoints, func(e endpoint) bool { return strings.EqualFold(e.host, host) })
	if n < 0 {
		return nil
	}
	return &r.endpoints[n]
}

// Proxy is a SystemContext.DockerProxy. Without it, the library takes the same proxies of the environment.
func (r *Realms) Proxy(u *url.URL) (*url.URL, error) {
	if err := r.check(u); err != nil {
		return nil, err
	}
	return http.ProxyFromEnvironment(&http.Request{URL: u})
}

// check refuses a request that would take the password, or a token, of an endpoint to another server than it is for. It
// sees nothing but the URLs of requests, of which each may be one to which a server has redirected: net/http sends
// credentials along to each port and scheme of the same host, and to hosts below it. When a source is open, Guard
// prevents that.
func (r *Realms) check(u *url.URL) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.guarded {
		return nil
	}
	if e := r.of(u.Host); e != nil && u.Path == "/v2/" {
		e.pinged, r.at = true, e
	}
	if r.at == nil {
		return nil
	}
	refused := func(e *endpoint) error {
		return fmt.Errorf("container registry %s %s %s://%s", e.host, Text, u.Scheme, u.Host)
	}
	own, ok := r.at.takes(u)
	if !ok {
		return refused(r.at)
	}
	for i := range r.endpoints { // an earlier one may have redirected to this one
		if e := &r.endpoints[i]; e != r.at && e.pinged && !own && e.sendsAlong(u) {
			return refused(e)
		}
	}
	return nil
}

// takes notes a request while the library is at the endpoint, or refuses it. own is true if it is one that the library
// makes of this endpoint, with no password but the endpoint's.
func (e *endpoint) takes(u *url.URL) (own, ok bool) {
	token := e.identity || u.Query().Has("account") // the library puts the user's name into the URL
	switch {
	case !e.password || e.insecure:
		return server(u) == server(e.url()) || e.insecure && strings.EqualFold(u.Host, e.host), true
	case !isASCII(u.Hostname()): // net/http may take it for another spelling of a host that it knows
		return false, false
	case server(u) == server(e.url()):
		below := strings.HasPrefix(u.Path, "/v2/")
		e.content = e.content || below && u.Path != "/v2/"
		if !below && token && e.realm == nil {
			e.realm = u
		}
		return true, true
	case e.realm != nil && server(u) == server(e.realm):
		return true, true
	case e.realm != nil && takesAlong(e.realm, u):
		return false, false
	case token && e.realm == nil && e.mayHave(u) && (!e.content || !takesAlong(e.url(), u)):
		e.realm = u
		return true, true
	case token, takesAlong(e.url(), u):
		return false, false
	}
	return false, e.content || e.mayHave(u)
}

// sendsAlong reports whether net/http sends a password of the endpoint to a URL, if that is a redirect.
func (e *endpoint) sendsAlong(u *url.URL) bool {
	return e.password && !e.insecure &&
		(!isASCII(u.Hostname()) || takesAlong(e.url(), u) || e.realm != nil && takesAlong(e.realm, u))
}

func (e *endpoint) url() *url.URL { return &url.URL{Scheme: "https", Host: e.host} }

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c > unicode.MaxASCII })
}

// takesAlong reports whether net/http sends credentials for one server to another one, to which that one redirects.
func takesAlong(from, to *url.URL) bool {
	host, other := strings.ToLower(from.Hostname()), strings.ToLower(to.Hostname())
	return (host == other || strings.HasSuffix(other, "."+host)) && server(from) != server(to)
}

// mayHave reports whether a request that may have the endpoint's password may go to a URL.
func (e endpoint) mayHave(u *url.URL) bool {
	if !e.password || e.insecure {
		return true
	}
	own := sameDomain((&url.URL{Host: e.host}).Hostname(), u.Hostname())
	// The library puts the user's name into the URL, and net/http sends no password to another domain
	// to which such a request is redirected.
	if !own && !e.identity && !u.Query().Has("account") {
		return true
	}
	return own && u.Scheme == "https"
}

// sameDomain reports whether two hosts belong to the same owner by the list of public suffixes, as
// registry-1.docker.io and auth.docker.io do. An address, or a name of one label, is only itself.
func sameDomain(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return true
	}
	if net.ParseIP(a) != nil || net.ParseIP(b) != nil {
		return false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(a)
	other, otherErr := publicsuffix.EffectiveTLDPlusOne(b)
	return err == nil && otherErr == nil && domain == other
}
