package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/faults"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

const password, identityToken, urlSignature = "hunter2hunter2", "refresh4refresh4", "s3cr3ts3cr3t"

// tokens is a server of tokens that keeps what it was given.
type tokens struct {
	mu    sync.Mutex
	given string
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // an error gives no secret
	_, basic, _ := r.BasicAuth()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given += basic + string(body)
	_, _ = w.Write([]byte(`{"token":"good"}`)) // the client may be gone
}

func (s *tokens) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := s.given
	s.given = ""
	return given
}

// serveTokens serves tokens at an address on loopback, by HTTPS if there is a certificate.
func serveTokens(t *testing.T, address string, certificates ...tls.Certificate) (*tokens, string) {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &tokens{}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	if len(certificates) > 0 {
		server.TLS = &tls.Config{Certificates: certificates}
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return s, server.URL
}

// certificate makes a certificate for two addresses, and the folder that makes it trusted.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, filepath.Dir(file)
}

// A registry names in WWW-Authenticate the URL that gives tokens for a password. A bug was to send the password
// to any URL.
func TestPasswordsStayInTheDomainOfTheRegistry(t *testing.T) {
	cert, certs := certificate(t)
	challenge := ""
	r := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if challenge != "" && r.Header.Get("Authorization") != "Bearer good" {
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	pin := push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))
	front := faults.Start(t, r.Host, cert)
	sets := write(t, "sets.yaml", sample.Set("worker", strings.Replace(pin, r.Host, front.Host, 1)))
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	auths := map[string]string{
		password:      fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, front.Host, basic),
		identityToken: fmt.Sprintf(`{"auths":{%q:{"auth":%q,"identitytoken":%q}}}`, front.Host, basic, identityToken),
		"":            `{"auths":{}}`,
	}
	for name, c := range map[string]struct {
		address string
		tls     []tls.Certificate
		own     bool
	}{
		"its host":                  {"127.0.0.1", []tls.Certificate{cert}, true},
		"its host without TLS":      {"127.0.0.1", nil, false},
		"another host":              {"127.0.0.2", []tls.Certificate{cert}, false},
		"another host, without TLS": {"127.0.0.2", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			server, url := serveTokens(t, c.address, c.tls...)
			challenge = fmt.Sprintf("Bearer realm=%q,service=x", url+"/token")
			for secret, auth := range auths {
				args := []string{"plan", "--set", sets, "--cert-dir", certs, "--authfile", write(t, "auth.json", []byte(auth))}
				code, _, stderr := pinbox(t.Context(), args...)
				given, may := server.take(), c.own || secret == ""
				if secret != "" && strings.Contains(given, secret) != may {
					t.Errorf("%s was given %q, want the secret: %v", url, given, may)
				}
				if (code == fault.OK) != may || !may && (code != fault.Registry ||
					!strings.Contains(stderr, front.Host+" wants its password sent to "+url) ||
					!strings.Contains(stderr, "--insecure-registry "+front.Host)) {
					t.Errorf("%q: got exit code %d, want success: %v\n%s", secret, code, may, stderr)
				}
				if strings.Contains(stderr, password) {
					t.Errorf("got the password in\n%s", stderr)
				}
				code, _, stderr = pinbox(t.Context(), append(args, "--insecure-registry", front.Host)...)
				if given := server.take(); code != fault.OK || !strings.Contains(given, secret) {
					t.Errorf("insecure: got exit code %d, and %s was given %q\n%s", code, url, given, stderr)
				}
			}
		})
	}
}

// What a registry redirects a blob to gets no password: neither its host without TLS, nor an object store at another
// port, which refuses a request with one beside its own signature. A bug was that net/http sends it to both. No message
// has the signature.
func TestRedirectsOfBlobs(t *testing.T) {
	const signature = "?X-Amz-Signature=" + urlSignature
	cert, certs := certificate(t)
	private, object := false, ""
	var registry http.Handler
	r := serve(t, func(next http.Handler) http.Handler {
		registry = next
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, given, _ := r.BasicAuth()
			switch {
			case private && given != password:
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			case private && strings.Contains(r.URL.Path, "/blobs/") && r.URL.RawQuery == "":
				http.Redirect(w, r, object+r.URL.Path+signature, http.StatusTemporaryRedirect)
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	pin := push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))
	private = true
	front := faults.Start(t, r.Host, cert)
	sets := write(t, "sets.yaml", sample.Set("worker", strings.Replace(pin, r.Host, front.Host, 1)))
	auth := write(t, "auth.json", fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, front.Host,
		base64.StdEncoding.EncodeToString([]byte("me:"+password))))
	plan := []string{"plan", "--set", sets, "--cert-dir", certs, "--authfile", auth}
	for name, c := range map[string]struct {
		start  func(*httptest.Server)
		broken bool
	}{
		"another port":                   {(*httptest.Server).StartTLS, false},
		"without TLS":                    {(*httptest.Server).Start, false},
		"another port, and out of order": {(*httptest.Server).StartTLS, true},
		"without TLS, and out of order":  {(*httptest.Server).Start, true},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			store := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				switch given := r.Header.Get("Authorization"); {
				case given != "" || r.Referer() != "":
					t.Errorf("the store was given %q, and the referer %q", given, r.Referer())
					w.WriteHeader(http.StatusBadRequest)
				case c.broken:
					panic(http.ErrAbortHandler)
				default:
					registry.ServeHTTP(w, r)
				}
			}))
			store.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			c.start(store)
			defer store.Close()
			object = store.URL
			run := func(flags ...string) error {
				code, stdout, stderr := pinbox(t.Context(), append(slices.Clone(plan), flags...)...)
				if output := stdout + stderr; strings.Contains(output, "s3cr3t") || strings.Contains(output, password) {
					t.Errorf("got a secret in\n%s", output)
				}
				if (code == fault.OK) == c.broken || requests.Load() == 0 || c.broken && !strings.Contains(stderr, object) {
					return fmt.Errorf("got exit code %d and %d requests to the store, want the store %s in\n%s",
						code, requests.Load(), object, stderr)
				}
				return nil
			}
			if c.broken {
				patiently(t, func(limit time.Duration) error { return run("--stall", limit.String()) })
			} else if err := run(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("the registry itself", func(t *testing.T) { // which needs its password there, too
		object = "https://" + front.Host
		if code, _, stderr := pinbox(t.Context(), plan...); code != fault.OK {
			t.Errorf("got exit code %d, want 0\n%s", code, stderr)
		}
	})
}

// A helper for credentials that does not answer, is not installed, or prints something else is named, and what it
// prints is not repeated.
func TestHelpersForCredentials(t *testing.T) {
	const answer = `echo '{"Username":"me","Secret":"` + password + `"}'`
	host, pin := privateRegistry(t)
	sets := write(t, "sets.yaml", sample.Set("worker", pin))
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	pid := filepath.Join(bin, "pid")
	t.Setenv("PID", pid)
	t.Cleanup(func() { // one that hangs ends with the program
		fixtures.Run(t, "sh", "-c", "! kill -0 $(cat "+pid+") 2>/dev/null")
	})
	for name, c := range map[string]struct {
		script, says, stall string
	}{
		"hangs":                {"echo $$ >$PID; sleep 1000", "did not answer in time", "1s"},
		"prints-a-warning":     {"echo Warning; " + answer, "prints something else", "5m"},
		"fails":                {answer + "; exit 1", " fails, ", "5m"},
		"is-not-installed":     {"", "is not installed", "5m"},
		"gives-what-is-needed": {answer, "", "5m"},
	} {
		t.Run(name, func(t *testing.T) {
			helper := "docker-credential-" + name
			if c.script != "" {
				program := []byte("#!/bin/sh\n" + c.script + "\n")
				if err := os.WriteFile(filepath.Join(bin, helper), program, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			auth := write(t, "auth.json", fmt.Appendf(nil, `{"credHelpers":{%q:%q}}`, host, name))
			code, stdout, stderr := pinbox(t.Context(), "plan", "--set", sets, "--insecure-registry=127.0.0.1", "--authfile",
				auth, "--stall", c.stall)
			if (code == fault.OK) != (c.says == "") || !strings.Contains(stderr, c.says) {
				t.Errorf("got exit code %d, and %s, want %q", code, stderr, c.says)
			}
			if c.says != "" && !strings.Contains(stderr, helper) || strings.Contains(stdout+stderr, password) {
				t.Errorf("got %s, want the name of the helper, and no secret", stderr)
			}
		})
	}
}
