package builder_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// An OCI artifact is in the store, the lock and the pins. The delta of the next release has the new ones alone.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	push := func(repository, weights string) string {
		t.Helper()
		pin, err := registry.PushArtifact(t.Context(), repository, []string{"weights", "README"},
			[]byte(strings.Repeat(weights, 300_000)), []byte("a model"))
		if err != nil {
			t.Fatal(err)
		}
		return pin
	}
	model, next := push("models/a", "weights"), push("models/b", "others")
	o := options(t, sample.Set("worker", pins.Docker, model))
	result := build(t, o)
	if result.Totals.Artifacts != 1 || result.Totals.ArtifactBytes < 2_100_000 {
		t.Errorf("got the totals %+v, want one artifact", result.Totals)
	}
	wantArtifacts(t, o, model)
	again := options(t, sample.Set("worker", pins.Docker, model))
	if r := build(t, again); r.StoreDigest != result.StoreDigest {
		t.Errorf("got the store %s from another build, want %s", r.StoreDigest, result.StoreDigest)
	}

	d := options(t, sample.Set("worker", pins.Docker, model, next))
	d.From = []string{o.Out}
	if _, err := builder.Delta(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	wantArtifacts(t, d, next)
	if lock := appliance.Lock(t, d.Out); len(lock.Artifacts) != 2 {
		t.Errorf("got %d artifacts in the lock of the delta, want both", len(lock.Artifacts))
	}
}

// wantArtifacts wants that the store verifies, passes the audit, and has exactly one artifact, whole.
func wantArtifacts(t *testing.T, o builder.Options, pin string) {
	t.Helper()
	if o.From == nil {
		if _, err := verify.Release(t.Context(), o.Out, verify.Options{}); err != nil {
			t.Errorf("verify: %v", err)
		}
	} else if _, err := verify.Release(t.Context(), o.Out, verify.Options{Bases: o.From}); err != nil {
		t.Errorf("verify: %v", err)
	}
	store := openStore(t, o.Out)
	if _, err := audit.Store(store); err != nil {
		t.Errorf("audit: %v", err)
	}
	index, err := fs.ReadFile(store, "artifacts/index.json")
	if err != nil || strings.Count(string(index), "ref.name") != 1 || !strings.Contains(string(index), `"`+pin+`"`) {
		t.Errorf("got the index %s, %v, want %s alone", index, err, pin)
	}
	lock := appliance.Lock(t, o.Out)
	i := slices.IndexFunc(lock.Artifacts, func(a pinset.LockedArtifact) bool { return a.Pin == pin })
	if i < 0 {
		t.Fatalf("got the artifacts %v in the lock, want %s", lock.Artifacts, pin)
	}
	if a := lock.Artifacts[i]; a.Type != sample.ArtifactType || len(a.Blobs) != 4 {
		t.Errorf("got %+v, want the type %s and 4 blobs", a, sample.ArtifactType)
	}
	for _, b := range lock.Artifacts[i].Blobs {
		content, err := fs.ReadFile(store, "artifacts/blobs/sha256/"+b.Digest.Encoded())
		if err != nil || int64(len(content)) != b.Size || digest.FromBytes(content) != b.Digest {
			t.Errorf("blob %s: got %d bytes, %v, want its %d", b.Digest, len(content), err, b.Size)
		}
	}
	if o.From != nil {
		return
	}
	ign, err := os.ReadFile(filepath.Join(o.Out, "config.bu"))
	if err != nil || !bytes.Contains(ign, []byte(pin)) {
		t.Errorf("got %v, want %s pinned", err, pin)
	}
}

// openStore opens the squashfs of an appliance or a delta.
func openStore(t *testing.T, out string) *squashfs.Reader {
	t.Helper()
	r, err := release.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	found, err := r.Store()
	if err != nil {
		t.Fatal(err)
	}
	store, err := found.Files()
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// CRI-O 1.36 lists the artifacts of a store, and pins them, also of one that is attached while it runs; an older one
// does not, and the status says so. With the slots themselves as artifact stores, CRI-O 1.36.3 ends in a panic.
func TestArtifactsOnANode(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	var models []string
	for _, name := range []string{"a", "b"} {
		pin, err := registry.PushArtifact(t.Context(), "models/"+name, []string{"weights"}, []byte("weights of "+name))
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, pin)
	}
	o := options(t, sample.Set("worker", pins.Pause, pins.Docker, models[0]))
	n := appliance.Boot(t, o, pins.Pause)
	d := options(t, sample.Set("worker", pins.Pause, pins.Docker, models[0], models[1]))
	d.Appliance.Metadata.Release, d.From = 2, []string{o.Out}
	if _, err := builder.Delta(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.Do("mount")
	n.Start()
	v, err := n.Runtime().Version(t.Context(), &criapi.VersionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	old := strings.HasPrefix(v.RuntimeVersion, "1.34.")
	for _, step := range []struct {
		command []string
		want    []string
	}{
		{[]string{"firstboot"}, models[:1]}, {[]string{"attach", "--force", d.Out}, models},
		{[]string{"rollback"}, models}, {[]string{"detach", "1"}, models[:1]},
	} {
		r := n.Do(step.command[0], step.command[1:]...)
		told := strings.Contains(r.Out+r.Err, "CRI-O reads no OCI artifacts of stores before 1.36")
		if want := old && step.command[0] != "detach"; told != want || (r.Code != 0) != want {
			t.Errorf("%v: got exit code %d, %v that CRI-O is too old, want %v\n%s%s", step.command, r.Code, told, want,
				r.Out, r.Err)
		}
		wantListed(t, n, models, step.want, !old)
	}
	wantCompacted(t, n, d.Out, models, !old)
}

// wantCompacted attaches a delta and wants that one store, made of it and of the appliance's own, has the artifacts of
// both.
func wantCompacted(t *testing.T, n *crio.Node, delta string, models []string, pinned bool) {
	t.Helper()
	n.Do("attach", "--force", delta)
	if r := n.Do("compact", "--all"); r.Code != 0 {
		t.Fatalf("compact: got exit code %d\n%s%s", r.Code, r.Out, r.Err)
	}
	n.Stop(syscall.SIGTERM)
	n.Do("mount")
	n.Start()
	n.Do("firstboot")
	wantListed(t, n, models, models, pinned)
	if r := n.Do("verify"); r.Code != 0 {
		t.Errorf("verify: got exit code %d\n%s%s", r.Code, r.Out, r.Err)
	}
	index := n.Run("sh", "-c", "cat /var/lib/pinbox/stores/[1-9]/artifacts/index.json")
	if !strings.Contains(index, models[0]) || !strings.Contains(index, models[1]) {
		t.Errorf("got the index %s in the compacted store, want both artifacts", index)
	}
}

// wantListed wants exactly these of all artifacts in the artifact store, whole, and pinned or not known to CRI-O.
func wantListed(t *testing.T, n *crio.Node, all, want []string, pinned bool) {
	t.Helper()
	index := n.Run("cat", "/var/lib/pinbox/artifacts/index.json")
	list, err := n.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if got := strings.Contains(index, name); got != slices.Contains(want, name) {
			t.Errorf("got the index %s, want exactly %v", index, want)
		}
		got := slices.ContainsFunc(list.Images, func(i *criapi.Image) bool {
			return i.Pinned && slices.Contains(i.RepoDigests, name)
		})
		if got != (pinned && slices.Contains(want, name)) {
			t.Errorf("got %s pinned: %v, want %v", name, got, !got)
		}
	}
	out := n.Run("sh", "-c", "cd /var/lib/pinbox/artifacts/blobs/sha256; sha256sum *")
	for line := range strings.Lines(out) {
		if sum, name, _ := strings.Cut(strings.TrimSpace(line), "  "); sum != name {
			t.Errorf("got the blob %s with the digest %s", name, sum)
		}
	}
}
