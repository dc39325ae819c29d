package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/layout"
)

// reference is how `pinbox push` names what it has pushed.
var reference = regexp.MustCompile(`oci://\S+@(sha256:[0-9a-f]{64})`)

// uploads are the files that were sent, in bytes.
func uploads(requests []fixtures.Request) (n int) {
	for _, r := range requests {
		if strings.Contains(r.Path, "/blobs/uploads/") && r.Status == http.StatusCreated {
			n++
		}
	}
	return n
}

// A delta is pushed to a real registry that asks for a password. Pushed again, also under a tag and from a copy of the
// folder, it is the same artifact, and no blob is sent. `skopeo copy` reads it.
func TestPush(t *testing.T) {
	u := newUpgrade(t)
	dir, _, _ := u.delta(u.old)
	host, access := fixtures.Distribution(t, "me", "secret")
	auth := write(t, "auth.json", fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host,
		base64.StdEncoding.EncodeToString([]byte("me:secret"))))
	to, flags := "oci://"+host+"/site/releases", []string{"--insecure-registry=127.0.0.1", "--authfile", auth}
	u.run(cli.ExitRegistry, "refuses the credentials", "push", dir, to, "--insecure-registry=127.0.0.1")
	access.Take()
	stdout, _ := u.run(cli.ExitOK, "pinbox-node attach "+to+"@sha256:", append([]string{"push", dir, to}, flags...)...)
	if got := uploads(access.Take()); got != 7 {
		t.Errorf("got %d blobs that were sent, want 6 files and the configuration", got)
	}
	name := reference.FindStringSubmatch(stdout)
	again := filepath.Join(t.TempDir(), "again")
	fixtures.Run(t, "cp", "-r", dir, again)
	for _, where := range []string{to, to + ":42"} {
		stdout, _ := u.run(cli.ExitOK, "0 bytes of ", append([]string{"push", again, where}, flags...)...)
		if got := reference.FindString(stdout); got != name[0] {
			t.Errorf("%s: got %s, want %s", where, got, name[0])
		}
		if got := uploads(access.Take()); got != 0 {
			t.Errorf("%s: got %d blobs that were sent again, want none", where, got)
		}
	}
	copied := filepath.Join(t.TempDir(), "copied")
	fixtures.Run(t, "skopeo", "copy", "--src-tls-verify=false", "--src-authfile", auth,
		"docker://"+host+"/site/releases:42", "dir:"+copied)
	wantPushed(t, filepath.Join(copied, "manifest.json"), dir)
}

// A registry whose certificate is of a site's own authority takes a push with --cert-dir only.
func TestPushToARegistryWithTLS(t *testing.T) {
	u := newUpgrade(t)
	dir, _, _ := u.delta(u.old)
	host, _ := fixtures.Distribution(t, "", "")
	front := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host}))
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // of the connection that pinbox refuses
	front.StartTLS()
	t.Cleanup(front.Close)
	certificates := filepath.Dir(write(t, "ca.crt", pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: front.Certificate().Raw,
	})))
	to := "oci://" + strings.TrimPrefix(front.URL, "https://") + "/site/releases"
	u.run(cli.ExitRegistry, "its certificate is not trusted", "push", dir, to)
	u.run(cli.ExitOK, "pinbox-node attach "+to+"@sha256:", "push", dir, to, "--cert-dir", certificates)
}

// wantPushed checks that a manifest has the files of a delta's folder, and nothing of the configs.
func wantPushed(t *testing.T, manifest, dir string) {
	t.Helper()
	content, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	files, err := layout.DecodePushed(content)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
		if sum := fixtures.Run(t, "sha256sum", filepath.Join(dir, f.Name)); !strings.HasPrefix(sum, f.Digest.Encoded()) {
			t.Errorf("%s: got %s, want %s", f.Name, f.Digest, sum)
		}
	}
	want := []string{"SHA256SUMS", "delta.json", "delta.roothash", "delta.squashfs", "pinbox.lock.json", "provenance.json"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A push that is killed while it sends the store is done again, and sends only what is missing.
func TestPushIsDoneAgain(t *testing.T) {
	u := newUpgrade(t)
	dir, _, _ := u.delta(u.old)
	host, access := fixtures.Distribution(t, "", "")
	args := []string{"push", dir, "oci://" + host + "/site/releases", "--insecure-registry=127.0.0.1", "--output=json"}
	sent, reached, killed := 0, make(chan bool), make(chan bool)
	access.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		if sent++; sent != 4 {
			return false
		}
		close(reached)
		<-killed
		return true
	})
	cmd := exec.Command(fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reached:
	case <-time.After(time.Minute):
		t.Error("got no fourth blob within a minute")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	close(killed)
	access.Fault(nil)
	before := uploads(access.Take())
	stdout, _ := u.run(cli.ExitOK, "", args...)
	if after := uploads(access.Take()); before != 3 || after != 4 {
		t.Errorf("got %d blobs that were sent before the kill and %d after it, want 3 and 4", before, after)
	}
	var result struct{ Bytes, Sent int64 }
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || result.Sent == 0 || result.Sent >= result.Bytes {
		t.Errorf("got %s, %v, want less sent than there is", stdout, err)
	}
}

// What cannot be pushed, or should not be, is refused before the registry is asked.
func TestPushRefusals(t *testing.T) {
	u := newUpgrade(t)
	dir, _, _ := u.delta(u.old)
	host, access := fixtures.Distribution(t, "", "")
	to := "oci://" + host + "/site/releases"
	changed := filepath.Join(t.TempDir(), "changed")
	fixtures.Run(t, "cp", "-r", dir, changed)
	store := filepath.Join(changed, "delta.squashfs")
	private := filepath.Join(t.TempDir(), "private")
	fixtures.Run(t, "cp", "-r", dir, private)
	fixtures.Run(t, "chmod", "600", filepath.Join(private, "delta.squashfs"))
	content, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store, bytes.ToUpper(content), 0o644); err != nil {
		t.Fatal(err)
	}
	access.Take()
	for name, c := range map[string]struct {
		code int
		want string
		args []string
	}{
		"no scheme":     {cli.ExitUsage, "does not begin with oci://", []string{dir, host + "/site/releases"}},
		"a digest":      {cli.ExitUsage, "the digest comes of what is pushed", []string{dir, to + "@sha256:" + strings.Repeat("0", 64)}},
		"no registry":   {cli.ExitUsage, "not a repository to push to", []string{dir, "oci://releases"}},
		"no folder":     {cli.ExitInput, "not an appliance's folder", []string{t.TempDir(), to}},
		"changed store": {cli.ExitDamaged, "it has changed: SHA-256", []string{changed, to}},
		"secrets":       {cli.ExitInput, "only its owner may read the store", []string{private, to}},
	} {
		u.run(c.code, c.want, slices.Concat([]string{"push"}, c.args, []string{"--insecure-registry=127.0.0.1"})...)
		if got := access.Take(); len(got) > 0 {
			t.Errorf("%s: got the requests %v, want none", name, got)
		}
	}
}
