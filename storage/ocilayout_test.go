package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// `docker buildx --output type=oci` writes only the tag as ref.name.
func TestLayoutName(t *testing.T) {
	for _, test := range []struct{ ref, containerd, want string }{
		{"quay.io/site/app:1", "", "quay.io/site/app:1"},
		{"quay.io/site/app:1", "docker.io/library/app:1", "quay.io/site/app:1"},
		{"1", "quay.io/site/app:1", "quay.io/site/app:1"},
		{"", "quay.io/site/app:1", "quay.io/site/app:1"},
		{"1", "", "1"},
		{"", "", ""},
	} {
		t.Run(test.ref+" and "+test.containerd, func(t *testing.T) {
			got := layoutName(map[string]string{imgspecv1.AnnotationRefName: test.ref, containerdName: test.containerd})
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The documents of an image in a layout have the limits of registries, and the error names document and limit. A
// bug was to cut a manifest off there, so that its digest looked wrong.
func TestLimitsOfLayouts(t *testing.T) {
	const kind = "application/vnd.oci.image."
	config := `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]}}`
	manifest := func(configSize int) string {
		return fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%[1]smanifest.v1+json","config":{"mediaType":"%[1]sconfig.v1+json",`+
			`"digest":%[2]q,"size":%[3]d},"layers":[]}`, kind, digest.FromString(config), configSize)
	}
	pad := func(text string, size int) string { return text + strings.Repeat(" ", size-len(text)) }
	list := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[]}`, kind+"index.v1+json")
	good := manifest(len(config))
	entry := func(top string) string { return fmt.Sprintf(`{"manifests":[{"digest":%q}]}`, digest.FromString(top)) }
	for name, c := range map[string]struct{ index, top, want string }{
		"all at the limit":       {pad(entry(pad(good, maxManifest)), maxManifest), pad(good, maxManifest), ""},
		"a manifest":             {"", pad(good, maxManifest+1), "%s has more than 4194304 bytes, the limit of registries"},
		"an index in the layout": {"", pad(list, maxManifest+1), "%s has more than 4194304 bytes, the limit of registries"},
		"a configuration":        {"", manifest(maxManifest + 1), "has 4194305 bytes, and the limit of registries is 4194304"},
		"the index of the layout, which no registry sees":            {pad(entry(good), maxManifest+1), good, ""},
		"the index of the layout at the limit of pinbox's documents": {pad(entry(good), 64<<20+1), good, "index.json: too large"},
		"a manifest of many layers": {"", strings.Replace(good, `"layers":[]`, `"layers":[{}`+strings.Repeat(",{}", 1<<16)+"]", 1),
			"it has 65540 objects and lists, more than 65536"},
		"an index that is deep":   {"", strings.Replace(list, "[]", strings.Repeat("[", 1<<20), 1), "objects and lists, more than 65536"},
		"entries without digests": {`{"manifests":[{}` + strings.Repeat(",{}", 1<<20) + "]}", good, "index.json: invalid checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.index == "" {
				c.index = entry(c.top)
			}
			write(t, dir, "index.json", c.index)
			for _, content := range []string{config, c.top} {
				write(t, dir, "blobs/sha256/"+digest.FromString(content).Encoded(), content)
			}
			images, err := ReadLayout(dir)
			if err == nil {
				err = resolveLocal(t, images[0])
			}
			want := strings.ReplaceAll(c.want, "%s", digest.FromString(c.top).String())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), dir)) {
				t.Errorf("got %v, want %s: %q", err, dir, want)
			}
			// A bug was to call what is intact damaged.
			if isDamaged := name == "entries without digests"; errors.Is(err, ErrLocal) != isDamaged {
				t.Errorf("got %v, want %v: %v", err, ErrLocal, isDamaged)
			}
		})
	}
}
