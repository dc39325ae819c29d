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
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/fixtures/faults"
	"github.com/pinbox/pinbox/fixtures/sample"
)

const password, identityToken = "hunter2hunter2", "refresh4refresh4"

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
				if (code == cli.ExitOK) != may || !may && (code != cli.ExitRegistry ||
					!strings.Contains(stderr, front.Host+" wants its password sent to "+url) ||
					!strings.Contains(stderr, "--insecure-registry "+front.Host)) {
					t.Errorf("%q: got exit code %d, want success: %v\n%s", secret, code, may, stderr)
				}
				if strings.Contains(stderr, password) {
					t.Errorf("got the password in\n%s", stderr)
				}
				code, _, stderr = pinbox(t.Context(), append(args, "--insecure-registry", front.Host)...)
				if given := server.take(); code != cli.ExitOK || !strings.Contains(given, secret) {
					t.Errorf("insecure: got exit code %d, and %s was given %q\n%s", code, url, given, stderr)
				}
			}
		})
	}
}
