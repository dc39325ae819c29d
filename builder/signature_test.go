package builder_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/pod"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
)

// trust has the paths of a policy and of a registries.d folder, which locates the signatures.
type trust struct{ policy, registriesD string }

// signedSamples signs two of the sample images: one with OpenPGP, the signature is in a folder, and one
// with sigstore, the signature is in the registry. The policy requires these signatures, accepts the pause
// image without one, and rejects everything else.
func signedSamples(t *testing.T, registry *sample.Registry, pins sample.Pins) trust {
	t.Helper()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	simple, key := signedAs(t, registry.Host+"/sample/docker:1", "sha256:"+digestOf(pins.Docker))
	file("lookaside/sample/docker@sha256="+digestOf(pins.Docker)+"/signature-1", simple)
	file("registries.d/all.yaml",
		[]byte("default-docker:\n  lookaside: file://"+dir+"/lookaside\n  use-sigstore-attachments: true\n"))
	cosign, err := registry.Cosign(t.Context(), pins.Mixed)
	if err != nil {
		t.Fatal(err)
	}
	return trust{file("policy.json", fmt.Appendf(nil, `{"default": [{"type": "reject"}], "transports": {"docker": {
		"%[1]s/sample/docker": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": %[2]q}],
		"%[1]s/sample/mixed": [{"type": "sigstoreSigned", "keyPath": %[3]q, "signedIdentity": {"type": "matchRepository"}}],
		"%[1]s/sample/pause": [{"type": "insecureAcceptAnything"}]}}}`, registry.Host, file("simple.asc", key),
		file("cosign.pub", cosign))), filepath.Join(dir, "registries.d")}
}

// A node whose policy requires signatures starts signed images offline, as the store has the signatures.
// It refuses other images, so its policy is in effect.
func TestSignedImagesOnAStrictNode(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	trust := signedSamples(t, registry, pins)
	o := options(t, sample.Set("worker", pins.Pause, pins.Docker, pins.Mixed))
	o.Access.Policy, o.Access.RegistriesDir = trust.policy, trust.registriesD
	n := appliance.Boot(t, o, pins.Pause)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	checkRuns(t, n, trust.policy, pins.Docker, pins.Mixed)
	n.Stop(syscall.SIGTERM)
	other := filepath.Join(t.TempDir(), "policy.json") // requires OpenPGP for the image signed with sigstore
	policy := strings.NewReplacer("sample/docker", "sample/mixed", "sample/mixed",
		"sample/docker").Replace(string(mustRead(t, trust.policy)))
	if err := os.WriteFile(other, []byte(policy), 0o644); err != nil {
		t.Fatal(err)
	}
	n.Start("--signature-policy", other)
	if _, _, err := pod.Run(t.Context(), n.Runtime(), n.Path("log/unsigned"), pins.Mixed); err == nil ||
		!strings.Contains(err.Error(), "ignature") {
		t.Errorf("got %v for an image without the required signature, want an error of the signature", err)
	}
}

// checkRuns starts CRI-O with a policy and runs a container of each image.
func checkRuns(t *testing.T, n *crio.Node, policy string, images ...string) {
	t.Helper()
	n.Start("--signature-policy", policy)
	for _, image := range images {
		id, _ := n.RunContainer(image)
		if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
			t.Errorf("got exit code %d of %s, want 0", code, image)
		}
	}
}

// Signatures are copied from store to store.
func TestSignaturesOfAStore(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	trust := signedSamples(t, registry, pins)
	o := options(t, sample.Set("worker", pins.Pause, pins.Docker, pins.Mixed))
	o.Access.RegistriesDir = trust.registriesD
	appliance.Build(t, o)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	later := options(t, nil)
	later.Appliance.Spec.Sources = []source.Entry{
		{Source: &source.ContainersStorage{Path: fixtures.Mount(t, filepath.Join(o.Out, layout.StoreFile))}},
	}
	n := appliance.Boot(t, later, pins.Pause)
	checkRuns(t, n, trust.policy, pins.Docker, pins.Mixed)
}

// An archive of oc-mirror has the sigstore signatures of its images.
func TestSignaturesOfAnArchive(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	trust := signedSamples(t, registry, pins)
	m := mirror(t, pins)
	tag := "sha256-" + digestOf(pins.Mixed) + ".sig"
	attached := fixtures.Run(t, "skopeo", "inspect", "--tls-verify=false", "--raw",
		"docker://"+registry.Host+"/sample/mixed:"+tag)
	if err := m.Add(t.Context(), registry.Host+"/sample/mixed@"+digest.FromString(attached).String(),
		"site/app:"+tag); err != nil {
		t.Fatal(err)
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCMirror{Paths: []string{pack(t, m)}}}}
	policy := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(policy, fmt.Appendf(nil, `{"default": [{"type": "reject"}], "transports": {"docker": {
		"quay.example.com/site/pause": [{"type": "insecureAcceptAnything"}],
		"quay.example.com/site/app": [{"type": "sigstoreSigned", "keyPath": %q, "signedIdentity": {"type": "exactRepository", "dockerRepository": "%s/sample/mixed"}}]}}}`,
		filepath.Join(filepath.Dir(trust.policy), "cosign.pub"), registry.Host), 0o644); err != nil {
		t.Fatal(err)
	}
	n := appliance.Boot(t, o, "quay.example.com/site/pause:3")
	checkRuns(t, n, policy, "quay.example.com/site/app:1.2")
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The policy is applied to builds too.
func TestPolicyWhileBuilding(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	trust := signedSamples(t, registry, pins)
	for name, c := range map[string]struct {
		pin    string
		access storage.Access
		want   error
	}{
		"signed with OpenPGP": {
			pins.Docker, storage.Access{Policy: trust.policy, RegistriesDir: trust.registriesD}, nil,
		},
		"signed with sigstore": {pins.Mixed, storage.Access{Policy: trust.policy, RegistriesDir: trust.registriesD}, nil},
		"not signed": {
			pins.Other, storage.Access{Policy: trust.policy, RegistriesDir: trust.registriesD}, storage.ErrPolicy,
		},
		"signatures not found": {
			pins.Mixed, storage.Access{Policy: trust.policy, RegistriesDir: t.TempDir()}, storage.ErrPolicy,
		},
		"without a policy": {pins.Other, storage.Access{Policy: trust.policy, InsecurePolicy: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sample.Set("worker", c.pin))
			o.Access = c.access
			o.Access.Insecure = []string{"127.0.0.1"}
			if _, _, err := builder.Plan(t.Context(), o); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// With GODEBUG=fips140=only, an image that OpenPGP has to verify is refused in one sentence, and one of sigstore is
// verified.
func TestOpenPGPUnderFIPS(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	trust := signedSamples(t, registry, pins)
	for pin, want := range map[string]string{
		pins.Docker: "OpenPGP needs algorithms that are not in Go's FIPS 140-3 module", pins.Mixed: "",
	} {
		cmd := exec.Command(fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), "plan", "--image", pin, "--policy", trust.policy,
			"--registries.d", trust.registriesD, "--insecure-registry", "127.0.0.1")
		cmd.Env = append(os.Environ(), "GODEBUG=fips140=only")
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s: got %v, want %q\n%s", pin, err, want, out)
		}
	}
}

// An image that the policy rejects is ErrPolicy. A bug was to report a bad signature as an error of the
// registry. The policy is applied to the pin: neither a tag nor a lock changes the result.
func TestPolicyIsAppliedToPins(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	trust := signedSamples(t, registry, pins)
	other := signedSamples(t, registry, sample.Pins{Docker: pins.Docker, Mixed: pins.Other, Pause: pins.Pause})
	dir := filepath.Dir(trust.policy)
	for _, key := range []string{"simple.asc", "cosign.pub"} {
		fixtures.Run(t, "cp", filepath.Join(filepath.Dir(other.policy), key), filepath.Join(dir, key))
	}
	for _, pin := range []string{pins.Docker, pins.Mixed} {
		o := options(t, sample.Set("worker", pin))
		o.Access.Policy, o.Access.RegistriesDir = trust.policy, trust.registriesD
		if _, _, err := builder.Plan(t.Context(), o); !errors.Is(err, storage.ErrPolicy) {
			t.Errorf("got %v for %s, signed with another key; want %v", err, pin, storage.ErrPolicy)
		}
	}
	for range 8 {
		o := options(t, nil)
		o.Access.Policy, o.Access.RegistriesDir = other.policy, other.registriesD
		var tags []string
		for _, tag := range []string{"v1", "v2", "v3"} {
			tags = append(tags, registry.Host+"/sample/docker:"+tag)
			tagged(t, pins.Docker, tags[len(tags)-1])
		}
		o.Appliance.Spec.Sources = []source.Entry{{Source: (*source.Images)(&tags)}}
		if _, _, err := builder.Plan(t.Context(), o); err != nil {
			t.Errorf("got %v for an image signed with another tag, want no error", err)
		}
	}
}

// Of two manifests with the same configuration, CRI-O checks the signatures of one. pinbox chooses the
// one that has signatures.
func TestSignedTwinOfAnUnsignedImage(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	trust := signedSamples(t, registry, pins)
	twin := fixtures.Run(t, "skopeo", "inspect", "--tls-verify=false", "--raw", "docker://"+pins.Mixed)
	twin = strings.Replace(twin, "{", `{"annotations":{"twin":"yes"},`, 1)
	push, err := http.NewRequest(http.MethodPut,
		"http://"+registry.Host+"/v2/sample/a-twin/manifests/"+digest.FromString(twin).String(), strings.NewReader(twin))
	if err != nil {
		t.Fatal(err)
	}
	push.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	response, err := http.DefaultClient.Do(push)
	if err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("got %+v, %v; want status %d", response, err, http.StatusCreated)
	}
	response.Body.Close()
	o := options(t, sample.Set("worker", pins.Pause, pins.Mixed,
		registry.Host+"/sample/a-twin@"+digest.FromString(twin).String()))
	o.Access.RegistriesDir = trust.registriesD
	n := appliance.Boot(t, o, pins.Pause)
	checkRuns(t, n, trust.policy, pins.Mixed)
}
