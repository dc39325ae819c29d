package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// privateRegistry serves an image. It requires the credentials me:hunter2hunter2.
func privateRegistry(t *testing.T) (host, pin string) {
	t.Helper()
	private := false
	r := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); private && (user != "me" || password != "hunter2hunter2") {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	pin = push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))
	private = true
	return r.Host, pin
}

// credential is the entry of a credentials file for privateRegistry.
const credential = "bWU6aHVudGVyMmh1bnRlcjI="

// Credentials are read from either flag and from the environment, whatever other entries the file has.
func TestCredentialsAreUsed(t *testing.T) {
	host, pin := privateRegistry(t)
	sets := write(t, "sets.yaml", sample.Set("worker", pin))
	buildFails(t, sets, fault.Registry, []string{"refuses the credentials"})
	file := write(t, "auth.json", fmt.Appendf(nil, `{"auths":{"broken.example.com":7,%q:{"auth":%q}}}`, host, credential))
	for _, flag := range []string{"--authfile", "--pull-secret"} {
		code, _, stderr := pinbox(t.Context(), "plan", "--set", sets, "--insecure-registry=127.0.0.1", flag, file)
		if code != fault.OK || !strings.Contains(stderr, "broken.example.com are left out") {
			t.Errorf("%s: got exit code %d, want %d and %q\n%s",
				flag, code, fault.OK, "broken.example.com are left out", stderr)
		}
	}
	t.Setenv("REGISTRY_AUTH_FILE", file)
	if code, _, stderr := pinbox(t.Context(), "plan", "--set", sets, "--insecure-registry=127.0.0.1"); code != fault.OK {
		t.Errorf("REGISTRY_AUTH_FILE: got exit code %d, want %d\n%s", code, fault.OK, stderr)
	}
	bad := write(t, "bad.json", fmt.Appendf(nil, `{"auths":{%q:{"auth":"not base64"}}}`, host))
	buildFails(t, sets, fault.Registry, []string{"credentials for " + host + " are left out", "refuses the credentials"},
		"--authfile", bad)
}

// The credentials of a build stay where they are; those for the nodes are in their
// configuration, which only the owner can read, and in no other file.
func TestSecretsGoNowhereElse(t *testing.T) {
	host, pin := privateRegistry(t)
	auth := write(t, "auth.json", fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, credential))
	for name, c := range map[string]struct {
		node string // of the appliance file
		has  string // files with the secret
	}{
		"none for the nodes": {"", ""},
		"for the nodes":      {"  node: {pullSecret: " + auth + "}\n", "config.bu"}, // config.ign and the ISO have it packed
	} {
		t.Run(name, func(t *testing.T) {
			config := write(t, "appliance.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\n"+
				"spec:\n  sources:\n  - images: ['"+pin+"']\n"+c.node))
			out := filepath.Join(t.TempDir(), "out")
			code, stdout, stderr := pinbox(t.Context(), "build", "-c", config, "-o", out, "--insecure-registry=127.0.0.1", "--authfile",
				auth, "--node-binary", nodeProgram, "--iso", fixtures.LiveISO(t))
			if code != fault.OK || strings.Contains(stderr, "contain the pull secret") != (c.node != "") {
				t.Fatalf("got exit code %d, want %d\n%s", code, fault.OK, stderr)
			}
			if output := stdout + stderr; strings.Contains(output, "hunter2") || strings.Contains(output, credential) {
				t.Errorf("got a secret in the output, want none:\n%s", output)
			}
			for _, packed := range []string{"config.ign", "appliance.iso"} {
				if fi, err := os.Stat(filepath.Join(out, packed)); err != nil || (fi.Mode().Perm() == 0o600) != (c.node != "") {
					t.Errorf("got the mode %v of %s", fi.Mode(), packed)
				}
			}
			store := fixtures.Mount(t, filepath.Join(out, "store.squashfs"))
			if has := strings.Join(append(secrets(t, out), secrets(t, store)...), " "); has != c.has {
				t.Errorf("got secrets in %q, want none", has)
			}
		})
	}
}

// secrets lists the files below dir that contain a secret. Only their owner may read them.
func secrets(t *testing.T, dir string) (has []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		if bytes.Contains(content, []byte("hunter2")) || bytes.Contains(content, []byte(credential)) {
			has = append(has, path)
			if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("got the mode %v of %s, want 0600", info.Mode(), path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return has
}
