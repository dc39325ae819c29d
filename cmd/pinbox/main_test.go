package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/root"
)

func TestMain(m *testing.M) {
	if root.Init() {
		return
	}
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) { // the default
		_ = flag.Set("test.parallel", "24") // tests that run in parallel wait for registries
	}
	// Most of the time went into collections of garbage, of which each command of a few milliseconds has dozens. The
	// programs that tests start have it too; those whose memory is measured have their own.
	if os.Getenv("GOGC") == "" {
		_ = os.Setenv("GOGC", strconv.Itoa(collectedAt)) // a valid name
		debug.SetGCPercent(collectedAt)
	}
	oracle.Main(m)
}

// collectedAt is the GOGC of tests: in percent, by how much the heap grows until its garbage is collected.
const collectedAt = 400

const nodePackage = "github.com/pinbox/pinbox/cmd/pinbox-node"

// nodeProgram is what appliances have in place of pinbox-node: no test here runs it, and to compress the 35 MB of the
// real one takes longer than all else of a build. TestDemo has it.
const nodeProgram = "/bin/true"

// pinbox runs a command line in this process. A build keeps nothing unless it is told
// where, so that tests do not help each other.
func pinbox(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	if len(args) > 0 && (args[0] == "build" || args[0] == "delta") && !slices.Contains(args, "--cache-dir") {
		args = append(slices.Clone(args), "--no-cache")
	}
	var out, errOut bytes.Buffer
	code = run(ctx, args, &out, &errOut)
	stdout, stderr = out.String(), errOut.String()
	hasNoSecret(stdout + stderr)
	return code, stdout, stderr
}

// hasNoSecret panics if the output of any command of this suite has a secret that its fakes hand out or expect.
func hasNoSecret(output string) {
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	for _, secret := range []string{password, identityToken, urlSignature, basic} {
		if strings.Contains(output, secret) {
			panic(fmt.Sprintf("got the secret %s in the output, want none:\n%s", secret, output))
		}
	}
}

// serve starts a registry with a fault before it; nil for none.
func serve(t *testing.T, fault func(http.Handler) http.Handler) *sample.Registry {
	t.Helper()
	r, err := sample.Serve(fault)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func layer(t *testing.T, entries ...sample.Entry) *sample.Layer {
	t.Helper()
	l, err := sample.TarLayer(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func image(t *testing.T, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := sample.Image(arch, false, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func push(t *testing.T, r *sample.Registry, img v1.Image) string {
	t.Helper()
	pin, err := r.Push(t.Context(), "test/image", img)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// buildFails builds an appliance of sets, and checks the exit code, texts of the output, and that no file is
// left.
func buildFails(t *testing.T, sets string, code int, output []string, flags ...string) {
	t.Helper()
	if err := failedBuild(t, sets, code, output, flags...); err != nil {
		t.Error(err)
	}
}

// failedBuild is buildFails for a build that may be made again: it returns what is wrong.
func failedBuild(t *testing.T, sets string, code int, output []string, flags ...string) (wrong error) {
	t.Helper()
	parent := t.TempDir()
	args := append([]string{
		"build", "--set", sets, "-o", filepath.Join(parent, "out"), "--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram,
	}, flags...)
	got, _, stderr := pinbox(t.Context(), args...)
	if got != code {
		wrong = fmt.Errorf("got exit code %d, want %d", got, code)
	}
	for _, want := range append(slices.Clone(output), "hint: ") {
		if !strings.Contains(stderr, want) {
			wrong = errors.Join(wrong, fmt.Errorf("got the message\n%s\nwant %q", stderr, want))
		}
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
		t.Errorf("got %v left behind (%v), want nothing", entries, err)
	}
	return wrong
}

const someDigest = "sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea"

func TestBadSets(t *testing.T) {
	const head = "apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata:\n" +
		"  name: worker\nspec:\n"
	list := func(name string) string { return head + "  pinnedImages:\n  - name: " + name + "\n" }
	good := list("quay.io/a/b@" + someDigest)
	for name, test := range map[string]struct {
		content string
		output  []string
	}{
		"tag instead of digest": {
			list("quay.io/a/b:v1"), []string{
				"sets.yaml:7", `set "worker"`, "quay.io/a/b:v1", "not a digest reference", "skopeo inspect",
			},
		},
		"neither tag nor digest": {list("quay.io/a/b"), []string{"sets.yaml:7", "not a digest reference"}},
		"tag and digest":         {list("quay.io/a/b:v1@" + someDigest), []string{"sets.yaml:7", "it has a tag too"}},
		"short digest":           {list("quay.io/a/b@sha256:12"), []string{"sets.yaml:7", "not a valid image reference"}},
		"no registry": {
			list("busybox@" + someDigest), []string{"sets.yaml:7", "docker.io/library/busybox@sha256:"},
		},
		"upper case":         {list("quay.io/A/b@" + someDigest), []string{"not a valid image reference"}},
		"set with 0 images":  {head + "  pinnedImages: []\n", []string{"sets.yaml:6", `set "worker"`, "has no images"}},
		"set without a list": {head + "  {}\n", []string{"has no images"}},
		"name used twice":    {good + "---\n" + good, []string{"set name used twice", "sets.yaml:1", "sets.yaml:9"}},
		"misspelt field":     {head + "  pinedImages: []\n", []string{"sets.yaml:6", "unknown field spec.pinedImages"}},
		"unknown version": {
			strings.Replace(good, "/v1", "/v2", 1), []string{`apiVersion "machineconfiguration.openshift.io/v2" is unknown`},
		},
		"bad name": {strings.Replace(good, "worker", "../worker", 1), []string{"RFC 1123"}},
		"two mistakes": {
			head + "  pinnedImages:\n  - name: quay.io/a:1\n  - name: quay.io/b:2\n", []string{
				"sets.yaml:7", "quay.io/a:1", "sets.yaml:8", "quay.io/b:2",
			},
		},
		"no set":     {"kind: ConfigMap\n", []string{"no PinnedImageSet found"}},
		"empty file": {"", []string{"no PinnedImageSet found"}},
		"not YAML":   {"a: [", []string{"sets.yaml", "not a PinnedImageSet"}},
		"no object":  {"- a\n", []string{"not an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			buildFails(t, write(t, "sets.yaml", []byte(test.content)), fault.Input, test.output)
		})
	}
	buildFails(t, filepath.Join(t.TempDir(), "no-such-file.yaml"), fault.Input, []string{"no-such-file.yaml"})
}

func TestBadImages(t *testing.T) {
	t.Parallel()
	for name, test := range badLayers(t) {
		t.Run(name, func(t *testing.T) {
			digest, err := test.layer.Digest()
			if err != nil {
				t.Fatal(err)
			}
			pin := push(t, serve(t, nil), image(t, "amd64", test.layer))
			buildFails(t, write(t, "sets.yaml", sample.Set("worker", pin)), test.code, append(test.output, pin, digest.String()))
		})
	}
}

// badLayer is a layer that a build refuses.
type badLayer struct {
	layer  v1.Layer
	code   int
	output []string
}

func badLayers(t *testing.T) map[string]badLayer {
	t.Helper()
	good := layer(t, sample.File("a", strings.Repeat("text ", 5000)))
	blob, err := good.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	intact, err := io.ReadAll(blob)
	if err != nil {
		t.Fatal(err)
	}
	corrupt := bytes.Clone(intact)
	for i := len(corrupt) / 2; i < len(corrupt)/2+20; i++ {
		corrupt[i] ^= 0xff
	}
	other, err := layer(t, sample.File("b", "other")).Compressed()
	if err != nil {
		t.Fatal(err)
	}
	otherBlob, err := io.ReadAll(other)
	if err != nil {
		t.Fatal(err)
	}
	var owned []sample.Entry
	for id := range 1 << 16 {
		owned = append(owned, sample.Entry{Header: tar.Header{Name: strconv.Itoa(id), Uid: id}})
	}
	noTar, err := sample.NewLayer([]byte("hello, I am no tar stream"), types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]badLayer{
		"corrupt gzip": {good.WithBlob(corrupt), fault.Damaged, []string{"cannot be decompressed"}},
		"cut-off gzip": {
			good.WithBlob(intact[:len(intact)-30]), fault.Damaged, []string{"cannot be decompressed"},
		},
		"content of another layer": {good.WithBlob(otherBlob), fault.Damaged, []string{"does not match the diffID"}},
		"no tar":                   {noTar, fault.Input, []string{"tar entry 0", "cannot be unpacked"}},
		"entry up and out": {
			layer(t, sample.File("../evil", "x")), fault.Input, []string{`"../evil"`, "leads out of the layer"},
		},
		"absolute entry up and out": {
			layer(t, sample.File("/../../etc/passwd", "x")), fault.Input, []string{"leads out of the layer"},
		},
		"more owners than squashfs": {
			layer(t, owned...), fault.Input, []string{"more than 65535 different owners", "spec.store.format dir"},
		},
		"entry out through a symlink": {
			layer(t, sample.Symlink("up", "../.."), sample.File("up/evil", "x")), fault.Input,
			[]string{`"up/evil"`, "leads out of the layer"},
		},
	}
}

func TestImagesThatNoNodeCanRun(t *testing.T) {
	good := layer(t, sample.File("a", "x"))
	t.Run("image for another platform", func(t *testing.T) {
		pin := push(t, serve(t, nil), image(t, "arm64", good))
		buildFails(t, write(t, "sets.yaml", sample.Set("worker", pin)), fault.Input, []string{
			pin, "not for the appliance's platform", "linux/arm64", "spec.platform",
		})
	})
	t.Run("index of an index", func(t *testing.T) {
		inner, err := sample.Index(image(t, "amd64", good))
		if err != nil {
			t.Fatal(err)
		}
		outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
			mutate.IndexAddendum{
				Add: inner, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
			})
		pin, err := serve(t, nil).PushIndex(t.Context(), "test/nested", outer)
		if err != nil {
			t.Fatal(err)
		}
		buildFails(t, write(t, "sets.yaml", sample.Set("worker", pin)), fault.Input,
			[]string{pin, "points to another index"})
	})
	t.Run("index without the platform", func(t *testing.T) {
		index, err := sample.Index(image(t, "arm64", good), image(t, "s390x", good))
		if err != nil {
			t.Fatal(err)
		}
		pin, err := serve(t, nil).PushIndex(t.Context(), "test/index", index)
		if err != nil {
			t.Fatal(err)
		}
		buildFails(t, write(t, "sets.yaml", sample.Set("worker", pin)), fault.Input, []string{
			pin, "its index has linux/arm64, linux/s390x",
		})
	})
}

// Those of a registry were not told if one on this machine was for another platform.
func TestSeveralImagesForAnotherPlatform(t *testing.T) {
	good := layer(t, sample.File("a", "x"))
	dir := t.TempDir()
	local, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := local.AppendImage(image(t, "arm64", good)); err != nil {
		t.Fatal(err)
	}
	r := serve(t, nil)
	index, err := sample.Index(image(t, "riscv64", good))
	if err != nil {
		t.Fatal(err)
	}
	indexed, err := r.PushIndex(t.Context(), "test/index", index)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := r.Tag(t.Context(), "test/tagged", "1", image(t, "s390x", good))
	if err != nil {
		t.Fatal(err)
	}
	code, _, stderr := pinbox(t.Context(), "plan", "--oci", dir+"=quay.io/site/app:1", "--image", indexed, "--image", tag,
		"--image", push(t, r, image(t, "amd64", good)), "--insecure-registry=127.0.0.1")
	for _, output := range []string{
		"quay.io/site/app@", "linux/arm64", indexed, "linux/riscv64", r.Host + "/test/tagged@", "linux/s390x",
	} {
		if code != fault.Input || strings.Count(stderr, output) != 1 ||
			strings.Count(stderr, storage.ErrPlatform.Error()) != 3 {
			t.Errorf("got exit code %d, want %d and %q once:\n%s", code, fault.Input, output, stderr)
		}
	}
}

// Images of 600 layers were built, and no container on them was ever mounted.
func TestMoreLayersThanCanBeMounted(t *testing.T) {
	t.Parallel()
	good := layer(t, sample.File("a", "x"))
	digest, err := good.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r := serve(t, damage(digest.String(), func(http.ResponseWriter, *http.Request, http.Handler) {
		t.Error("got a layer read, want none")
	}))
	pin := push(t, r, image(t, "amd64", slices.Repeat([]v1.Layer{good}, 501)...))
	sets, output := write(t, "sets.yaml", sample.Set("worker", pin)), []string{pin, "it has 501, and the limit is 500"}
	buildFails(t, sets, fault.Input, output)
	if code, _, stderr := pinbox(t.Context(), "plan", "--set", sets, "--insecure-registry=127.0.0.1"); code != fault.Input ||
		!strings.Contains(stderr, output[1]) {
		t.Errorf("plan: got exit code %d, want %d\n%s", code, fault.Input, stderr)
	}
}

// damage answers requests whose path contains part with something else.
func damage(
	part string, answer func(w http.ResponseWriter, r *http.Request, next http.Handler),
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, part) {
				answer(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func TestBadRegistries(t *testing.T) {
	content := layer(t, sample.File("a", strings.Repeat("text ", 5000)))
	digest, err := content.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path   string
		status int
		output []string
	}{
		"401":            {"/manifests/", http.StatusUnauthorized, []string{"refuses the credentials", "podman login"}},
		"403":            {"/manifests/", http.StatusForbidden, []string{"refuses the credentials"}},
		"404":            {"/manifests/", http.StatusNotFound, []string{"does not have it", "may have been deleted"}},
		"500":            {"/manifests/", http.StatusInternalServerError, []string{"cannot be used"}},
		"404 of a layer": {digest.String(), http.StatusNotFound, []string{"does not have it", digest.String()}},
	} {
		t.Run(name, func(t *testing.T) {
			broken := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(test.status) }
			pin := push(t, serve(t, damage(test.path, broken)), image(t, "amd64", content))
			sets, output := write(t, "sets.yaml", sample.Set("worker", pin)), append(test.output, pin)
			if test.status < http.StatusInternalServerError { // else it is asked again, until the patience ends
				buildFails(t, sets, fault.Registry, output)
				return
			}
			patiently(t, func(limit time.Duration) error {
				return failedBuild(t, sets, fault.Registry, output, "--stall", limit.String())
			})
		})
	}
	t.Run("image that the policy refuses", func(t *testing.T) {
		pin := push(t, serve(t, nil), image(t, "amd64", content))
		policy := write(t, "policy.json", []byte(`{"default":[{"type":"reject"}]}`))
		buildFails(t, write(t, "sets.yaml", sample.Set("worker", pin)), fault.Damaged,
			[]string{pin, "signature policy refuses"}, "--policy", policy)
	})
}

// A registry that does not answer is asked three times. For such a one --insecure-registry is not recommended.
func TestRegistryThatIsDown(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	pin := push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))
	sets := write(t, "sets.yaml", sample.Set("worker", pin))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("build", func(t *testing.T) {
		t.Parallel()
		buildFails(t, sets, fault.Registry, []string{pin, "connection refused", "network"})
	})
	t.Run("plan", func(t *testing.T) {
		t.Parallel()
		if code, _, stderr := pinbox(t.Context(), "plan", "--set", sets); code != fault.Registry ||
			strings.Contains(stderr, "--insecure-registry") {
			t.Errorf("got exit code %d, want %d\n%s", code, fault.Registry, stderr)
		}
	})
}

func TestRegistriesThatGiveOtherContent(t *testing.T) {
	content := layer(t, sample.File("a", strings.Repeat("text ", 5000)))
	digest, err := content.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		fault  func(http.Handler) http.Handler
		code   int
		output []string
	}{
		"wrong manifest": {damage("/manifests/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			fmt.Fprint(w, `{"schemaVersion":2}`)
		}), fault.Damaged, []string{"content does not match its digest"}},
		"wrong configuration": {damage("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if !strings.Contains(r.URL.Path, digest.String()) {
				fmt.Fprint(w, `{"os":"linux","architecture":"amd64"}`)
				return
			}
			next.ServeHTTP(w, r)
		}), fault.Damaged, []string{"content does not match its digest"}},
		"wrong layer": {damage(digest.String(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			body := record(next, r)
			body[len(body)/2] ^= 1
			w.Write(body)
		}), fault.Damaged, []string{"content does not match its digest", digest.String()}},
		"truncated layer": {damage(digest.String(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			body := record(next, r)
			w.Write(body[:len(body)/2])
		}), fault.Damaged, []string{"content does not match its digest", "it ends after"}},
		"layer that is too long": {damage(digest.String(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.Write(append(record(next, r), "more"...))
		}), fault.Damaged, []string{"content does not match its digest", "more than the"}},
		"connection that breaks": {damage(digest.String(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			body := record(next, r)
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Write(body[:len(body)/2])
			panic(http.ErrAbortHandler)
		}), fault.Registry, []string{"cannot be used", digest.String()}},
	} {
		t.Run(name, func(t *testing.T) {
			pin := push(t, serve(t, test.fault), image(t, "amd64", content))
			sets, output := write(t, "sets.yaml", sample.Set("worker", pin)), append(test.output, pin)
			if test.code != fault.Registry { // else it is asked again, until the patience ends
				buildFails(t, sets, test.code, output)
				return
			}
			patiently(t, func(limit time.Duration) error {
				return failedBuild(t, sets, test.code, output, "--stall", limit.String())
			})
		})
	}
}

// record is what a handler answers.
func record(h http.Handler, r *http.Request) []byte {
	w := &recorder{header: http.Header{}}
	h.ServeHTTP(w, r)
	return w.body.Bytes()
}

type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

func TestBadCredentials(t *testing.T) {
	sets := write(t, "sets.yaml", sample.Set("worker", "127.0.0.1:1/a/b@"+someDigest))
	buildFails(t, sets, fault.Input, []string{"credentials cannot be used", "no-such-file"}, "--authfile",
		"/no-such-file")
	buildFails(t, sets, fault.Input, []string{"credentials cannot be used", "is a directory"}, "--authfile", t.TempDir())
	buildFails(t, sets, fault.Input, []string{"credentials cannot be used", "auth.json"}, "--pull-secret",
		write(t, "auth.json", []byte("{")))
	buildFails(t, sets, fault.Usage, []string{"give one"}, "--authfile", "a", "--pull-secret", "b")
}

// A policy that is named but missing is no reason to accept every image.
func TestPolicyThatIsMissing(t *testing.T) {
	sets := write(t, "sets.yaml", sample.Set("worker", "127.0.0.1:1/a/b@"+someDigest))
	output := []string{"signature policy cannot be used", "/no-such-policy.json", "--policy"}
	buildFails(t, sets, fault.Input, output, "--policy", "/no-such-policy.json")
	t.Setenv("CONTAINERS_POLICY_JSON", "/no-such-policy.json")
	buildFails(t, sets, fault.Input, output)
}

func TestBadOutput(t *testing.T) {
	pin := push(t, serve(t, nil), image(t, "amd64", layer(t, sample.File("a", "x"))))
	sets := write(t, "sets.yaml", sample.Set("worker", pin))
	full := filepath.Dir(write(t, "mine.txt", []byte("mine")))
	args := []string{"build", "--set", sets, "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "-o"}
	code, _, stderr := pinbox(t.Context(), append(args, full)...)
	if code != fault.Usage || !strings.Contains(stderr, "not empty") {
		t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Usage, "not empty", stderr)
	}
	if entries, _ := os.ReadDir(full); len(entries) != 1 {
		t.Errorf("got %v in the folder, want it unchanged", entries)
	}
	file := write(t, "file", nil)
	code, _, stderr = pinbox(t.Context(), append(args, file)...)
	if code == fault.OK || !strings.Contains(stderr, file) {
		t.Errorf("a file as output: got exit code %d, want a failure and %q\n%s", code, file, stderr)
	}
	link, linked := filepath.Join(t.TempDir(), "link"), t.TempDir()
	if err := os.Symlink(linked, link); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := pinbox(t.Context(), append(args, link+"/")...); code != fault.OK {
		t.Errorf("a link to an empty folder: got %s, want success", stderr)
	}
	if _, err := os.Stat(filepath.Join(linked, "SHA256SUMS")); err != nil {
		t.Error(err)
	}
	empty := t.TempDir()
	if code, _, stderr := pinbox(t.Context(), append(args, empty)...); code != fault.OK {
		t.Errorf("an empty folder: got %s, want success", stderr)
	}
}

// smallDisk mounts one of 1 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	fixtures.NeedRoot(t)
	disk := t.TempDir()
	fixtures.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk)
	t.Cleanup(func() { fixtures.Run(t, "umount", disk) })
	return disk
}

// randomBytes are so many bytes, always the same, that cannot be compressed.
func randomBytes(size int) []byte {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // never fails
	return content
}

// noise is a layer of so many bytes that cannot be compressed.
func noise(t *testing.T, size int) *sample.Layer {
	t.Helper()
	stream, err := sample.Tar(sample.File("noise", string(randomBytes(size))))
	if err != nil {
		t.Fatal(err)
	}
	l, err := sample.NewLayer(stream, types.OCIUncompressedLayer)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A disk that is full before anybody could know.
func TestFullDisk(t *testing.T) {
	pin := push(t, serve(t, nil), image(t, "amd64", noise(t, 1_400_000)))
	disk := smallDisk(t)
	args := []string{
		"build", "--set", write(t, "sets.yaml", sample.Set("worker", pin)), "--insecure-registry=127.0.0.1", "--node-binary",
		nodeProgram, "-o",
	}
	if code, _, stderr := pinbox(t.Context(), append(args, disk)...); code != fault.Usage ||
		!strings.Contains(stderr, "is a mount point") {
		t.Errorf("a mount point as output: got exit code %d, want %d and %q\n%s",
			code, fault.Usage, "is a mount point", stderr)
	}
	code, _, stderr := pinbox(t.Context(), append(args, filepath.Join(disk, "out"))...)
	if code != fault.Space || !strings.Contains(stderr, "no space left on device") ||
		!strings.Contains(stderr, "hint: free space") {
		t.Errorf("got exit code %d, want %d\n%s", code, fault.Space, stderr)
	}
	if entries, _ := os.ReadDir(disk); len(entries) > 0 {
		t.Errorf("got %v left behind, want nothing", entries)
	}
}

// One that cannot hold what will be written is found out before a layer is read, and,
// where only the store's size tells, before the store is written.
func TestDiskThatIsTooSmall(t *testing.T) {
	blobs := 0
	r := serve(t, damage("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		blobs++
		next.ServeHTTP(w, r)
	}))
	// It has more than what is fetched while images are being resolved.
	large := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", noise(t, 65<<20)))))
	surprise := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", noise(t, 1_400_000)))))
	disk := smallDisk(t)
	for name, test := range map[string]struct {
		flags  []string
		output []string
		blobs  int // with the configuration
	}{
		"output": {
			[]string{"--set", large, "-o", filepath.Join(disk, "a/out"), "--no-cache"},
			[]string{disk + "/a: not enough space: the store needs about ", "hint: free space"}, 1,
		},
		"cache": {
			[]string{"--set", large, "-o", filepath.Join(t.TempDir(), "out"), "--cache-dir", filepath.Join(disk, "cache")},
			[]string{disk + "/cache: not enough space: the cache needs about "}, 1,
		},
		"store's size": {
			[]string{"--set", surprise, "-o", filepath.Join(disk, "out"), "--cache-dir", t.TempDir()},
			[]string{disk + ": not enough space: the store needs 1", " KiB are free"}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			blobs = 0
			code, _, stderr := pinbox(t.Context(), append([]string{"build", "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram},
				test.flags...)...)
			if code != fault.Space || blobs != test.blobs {
				t.Errorf("got exit code %d and %d blobs read, want %d\n%s", code, blobs, test.blobs, stderr)
			}
			for _, want := range test.output {
				if !strings.Contains(stderr, want) {
					t.Errorf("got the message\n%s\nwant %q", stderr, want)
				}
			}
			if entries, _ := filepath.Glob(filepath.Join(disk, "*/layers/*/*")); len(entries) > 0 {
				t.Errorf("got %v left behind, want nothing", entries)
			}
			if err := os.RemoveAll(filepath.Join(disk, "cache")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestInterruptedBuild(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	r := serve(t, damage("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		interrupt(errors.New("SIGINT"))
		next.ServeHTTP(w, r)
	}))
	pin := push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))
	parent := t.TempDir()
	code, _, stderr := pinbox(ctx, "build", "--set", write(t, "sets.yaml", sample.Set("worker", pin)),
		"--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram, "-o", filepath.Join(parent, "out"))
	if code != fault.Interrupted {
		t.Errorf("got exit code %d, want %d\n%s", code, fault.Interrupted, stderr)
	}
	if entries, _ := os.ReadDir(parent); len(entries) > 0 {
		t.Errorf("got %v left behind, want nothing", entries)
	}
}

func TestCommandLine(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown command":   {"bake"},
		"unknown flag":      {"build", "--fast"},
		"missing input":     {"build", "-o", "x"},
		"missing output":    {"build", "--set", "x"},
		"argument too many": {"plan", "-c", "x", "y"},
		"no folder":         {"verify"},
		"unknown output":    {"verify", "x", "--output", "xml"},
		"bad platform":      {"plan", "--set", "x", "--platform", "windows/amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, stderr := pinbox(t.Context(), args...); code != fault.Usage || !strings.Contains(stderr, "hint: ") {
				t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Usage, "hint: ", stderr)
			}
		})
	}
	if code, stdout, _ := pinbox(t.Context(), "--help"); code != fault.OK || !strings.Contains(stdout, "Exit codes:") {
		t.Errorf("--help: got exit code %d, want %d and %q\n%s", code, fault.OK, "Exit codes:", stdout)
	}
}
