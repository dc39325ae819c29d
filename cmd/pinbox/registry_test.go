package main

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// An image whose registry is out of reach comes from a mirror of it, and keeps
// the name that the cluster knows.
func TestMirrorsOfRegistriesConf(t *testing.T) {
	r := serve(t, nil)
	img := image(t, "amd64", layer(t, sample.File("a", "x")))
	pin, err := r.Push(t.Context(), "mirror/ns/app", img)
	if err != nil {
		t.Fatal(err)
	}
	source := strings.Replace(pin, r.Host+"/mirror", "registry.invalid/team", 1)
	conf := write(t, "registries.conf", fmt.Appendf(nil,
		"[[registry]]\nprefix = \"registry.invalid/team\"\nlocation = \"registry.invalid/team\"\n[[registry.mirror]]\n"+
			"location = \"%s/mirror\"\ninsecure = true\n", r.Host))
	out := filepath.Join(t.TempDir(), "out")
	// A process of its own: the library reads the file once in a process.
	cmd := exec.Command(fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), "build",
		"--set", write(t, "sets.yaml", sample.Set("worker", source)), "--node-binary", nodeProgram, "-o",
		out, "--no-cache")
	cmd.Env = append(os.Environ(), "CONTAINERS_REGISTRIES_CONF="+conf)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("got %v, want a lock\n%s", err, text)
	}
	lock, err := os.ReadFile(filepath.Join(out, "pinbox.lock.json"))
	if err != nil || !strings.Contains(string(lock), fmt.Sprintf("%q", source)) || strings.Contains(string(lock), r.Host) {
		t.Errorf("got the lock\n%s\nand %v, want the image under its own name", lock, err)
	}
}

// idms is an ImageDigestMirrorSet of one rule.
func idms(source, mirror, policy string) []byte {
	return fmt.Appendf(nil, "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: x}\n"+
		"spec:\n  imageDigestMirrors:\n  - {source: '%s', mirrors: ['%s'], mirrorSourcePolicy: %s}\n", source, mirror, policy)
}

// Mirrors of a flag come to those that the appliance file names, and both to those
// of registries.conf.
func TestMirrorsOfFileFlagAndHost(t *testing.T) {
	r := serve(t, nil)
	pin := push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))
	_, digest, _ := strings.Cut(pin, "@")
	repository, _, _ := strings.Cut(strings.TrimPrefix(pin, r.Host), "@")
	config := write(t, "appliance.yaml", fmt.Appendf(nil, "apiVersion: pinbox/v1alpha1\nkind: Appliance\n"+
		"metadata: {name: a}\nspec:\n  mirrors: [idms.yaml]\n  sources:\n  - images: [one.example.com/a@%[1]s, "+
		"two.example.com/b@%[1]s, three.example.com/c@%[1]s]\n", digest))
	if err := os.WriteFile(filepath.Join(filepath.Dir(config), "idms.yaml"), idms("one.example.com/a", r.Host+repository,
		"NeverContactSource"), 0o644); err != nil {
		t.Fatal(err)
	}
	flag := write(t, "more.yaml", idms("two.example.com/b", r.Host+repository, "NeverContactSource"))
	host := write(t, "registries.conf", fmt.Appendf(nil,
		"[[registry]]\nlocation = \"three.example.com/c\"\n[[registry.mirror]]\nlocation = %q\n", r.Host+repository))
	t.Setenv("CONTAINERS_REGISTRIES_CONF", host)
	code, stdout, stderr := pinbox(t.Context(), "plan", "-c", config, "--mirrors", flag, "--insecure-registry=127.0.0.1")
	if code != fault.OK || !strings.Contains(stdout, "3 images") {
		t.Errorf("got exit code %d, want %d and %q\n%s%s", code, fault.OK, "3 images", stdout, stderr)
	}
}

func TestBadMirrors(t *testing.T) {
	r := serve(t, nil)
	sets := write(t, "sets.yaml", sample.Set("worker", "quay.example.com/a@"+someDigest))
	for name, c := range map[string]struct {
		mirrors string
		code    int
		output  []string
	}{
		"a source with a tag": {
			string(idms("quay.io/a:1", r.Host, "''")), fault.Input, []string{
				"mirrors.yaml:6", `ImageDigestMirrorSet "x"`, "write quay.io/a", "hint: `oc explain",
			},
		},
		"a policy and another": {
			string(idms("quay.io/a", r.Host, "''")) + "---\n" + string(idms("quay.io/a", r.Host, "NeverContactSource")),
			fault.Input, []string{"mirrors.yaml:13", "mirrors.yaml:6", "two policies", "hint: "},
		},
		"no mirrors": {"kind: ConfigMap\n", fault.Input, []string{"mirrors.yaml", "hint: name a file"}},
		"a mirror without images": {
			string(idms("quay.example.com", r.Host, "NeverContactSource")), fault.Registry, []string{
				"quay.example.com/a@", " in " + r.Host + "/a: ", "its registry is blocked", "hint: push it to a mirror",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := pinbox(t.Context(), "plan", "--set", sets, "--insecure-registry=127.0.0.1", "--mirrors",
				write(t, "mirrors.yaml", []byte(c.mirrors)))
			for _, output := range c.output {
				if code != c.code || !strings.Contains(stderr, output) {
					t.Errorf("got exit code %d, want %d and %q:\n%s", code, c.code, output, stderr)
				}
			}
			t.Logf("%s", stderr)
		})
	}
}

// A registry with a self-signed certificate is trusted only with --cert-dir, which the hint recommends. A bug
// was to recommend --insecure-registry=127.0.0.1 for any error of a registry.
func TestCertificates(t *testing.T) {
	server := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	img := image(t, "amd64", layer(t, sample.File("a", "x")))
	pin := pushTLS(t, host, img)
	sets := write(t, "sets.yaml", sample.Set("worker", pin))
	mirrors := write(t, "mirrors.yaml", idms("registry.invalid/a", host+"/test/tls", "NeverContactSource"))
	mirrored := write(t, "mirrored.yaml",
		sample.Set("worker", strings.Replace(pin, host+"/test/tls", "registry.invalid/a", 1)))
	for _, args := range [][]string{{"--set", sets}, {"--set", mirrored, "--mirrors", mirrors}} {
		code, _, stderr := pinbox(t.Context(), append([]string{"plan"}, args...)...)
		if code != fault.Registry || !strings.Contains(stderr, "certificate is not trusted") ||
			!strings.Contains(stderr, "--cert-dir") || strings.Contains(stderr, "--insecure-registry") {
			t.Errorf("%s without the certificate: got exit code %d, want %d\n%s",
				args, code, fault.Registry, stderr)
		}
	}
	certs := filepath.Dir(write(t, "ca.crt",
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for _, flag := range []string{"--cert-dir=" + certs, "--insecure-registry=127.0.0.1"} {
		if code, _, stderr := pinbox(t.Context(), "plan", "--set", sets, flag); code != fault.OK {
			t.Errorf("%s: got exit code %d, want %d\n%s", flag, code, fault.OK, stderr)
		}
	}
}

// --insecure-registry is recommended, with the host, for a registry without TLS. It is for this registry only.
func TestPlainHTTP(t *testing.T) {
	r, other := serve(t, nil), serve(t, nil)
	img := image(t, "amd64", layer(t, sample.File("a", "x")))
	sets := write(t, "sets.yaml", sample.Set("worker", push(t, r, img)))
	both := write(t, "both.yaml", sample.Set("worker", push(t, r, img), push(t, other, img)))
	file := write(t, "appliance.yaml", fmt.Appendf(nil, "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\n"+
		"spec:\n  insecureRegistries: ['%s']\n  sources:\n  - pinnedImageSets: [%s]\n", r.Host, both))
	flag := "--insecure-registry=" + r.Host
	for name, c := range map[string]struct {
		args []string
		hint string // "" for success
	}{
		"no flag":                 {[]string{"--set", sets}, "hint: give it a certificate; or permit plain HTTP with --insecure-registry " + r.Host},
		"another one's flag":      {[]string{"--set", sets, "--insecure-registry", other.Host}, "--insecure-registry " + r.Host},
		"its flag":                {[]string{"--set", sets, flag}, ""},
		"its flag, other one":     {[]string{"--set", both, flag}, "--insecure-registry " + other.Host},
		"both flags":              {[]string{"--set", both, flag, "--insecure-registry", other.Host}, ""},
		"the file":                {[]string{"-c", file}, "--insecure-registry " + other.Host},
		"the file and a flag":     {[]string{"-c", file, "--insecure-registry", other.Host}, ""},
		"the host without a port": {[]string{"--set", both, "--insecure-registry=127.0.0.1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := pinbox(t.Context(), append([]string{"plan"}, c.args...)...)
			if (code == fault.OK) != (c.hint == "") || !strings.Contains(stderr, c.hint) {
				t.Errorf("got exit code %d, want the hint %q\n%s", code, c.hint, stderr)
			}
		})
	}
	for _, bad := range []string{"https://a.example", "a.example/path", "name", "", "a.example:port", "*.example.com"} {
		if code, _, stderr := pinbox(t.Context(), "plan", "--set", sets, "--insecure-registry", bad); code != fault.Usage ||
			!strings.Contains(stderr, "--insecure-registry: ") {
			t.Errorf("%q: got exit code %d, want %d\n%s", bad, code, fault.Usage, stderr)
		}
	}
}

func pushTLS(t *testing.T, host string, img v1.Image) string {
	t.Helper()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(host + "/test/tls@" + digest.String())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if err := remote.Write(ref, img, remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
	return ref.String()
}
