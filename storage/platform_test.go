package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

// An image for another platform is taken with a warning where it is data, or where its index says that it is for this
// one: CRI-O pulls it. A bug was to refuse the bundles of operators, which are published for amd64 alone.
func TestImagesForOtherPlatforms(t *testing.T) {
	const kind = "application/vnd.oci.image."
	bundle := `"config":{"Labels":{"operators.operatorframework.io.bundle.mediatype.v1":"registry+v1"},"Cmd":["/x"]}`
	for name, c := range map[string]struct {
		arch, config string
		listed       string // the architecture in an index; "" for no index
		want         string // in the warning; "" for ErrPlatform, "none" for no warning
	}{
		"this one":                  {"arm64", `"config":{"Cmd":["/x"]}`, "", "none"},
		"no architecture":           {"", `"config":{"Cmd":["/x"]}`, "", "none"},
		"as uname says":             {"aarch64", `"config":{"Cmd":["/x"]}`, "", "none"},
		"a program":                 {"amd64", `"config":{"Entrypoint":["/x"]}`, "", ""},
		"nothing to start":          {"amd64", `"config":{}`, "", "it has no program to start"},
		"a bundle of OLM":           {"amd64", bundle, "", "a bundle or a catalog of OLM is data"},
		"by an index of this one":   {"amd64", `"config":{"Cmd":["/x"]}`, "arm64", "its index the right platform"},
		"an index of another":       {"amd64", `"config":{"Cmd":["/x"]}`, "amd64", ""},
		"a program, asked for":      {"amd64", `"config":{"Cmd":["/x"]}`, "", "it is for linux/amd64, and is taken by --any-architecture"},
		"an index, asked for":       {"s390x", `"config":{"Cmd":["/x"]}`, "s390x", "taken by --any-architecture"},
		"this one, asked for":       {"arm64", `"config":{"Cmd":["/x"]}`, "arm64", "none"},
		"this one by such an index": {"arm64", `"config":{"Cmd":["/x"]}`, "arm64", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			config := fmt.Sprintf(`{"os":"linux","architecture":%q,%s,"rootfs":{"type":"layers","diff_ids":[]}}`, c.arch, c.config)
			top := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%[1]smanifest.v1+json","config":{"mediaType":"%[1]sconfig.v1+json",`+
				`"digest":%[2]q,"size":%[3]d},"layers":[]}`, kind, digest.FromString(config), len(config))
			blobs := []string{config, top}
			if c.listed != "" {
				top = fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%[1]sindex.v1+json","manifests":[{"mediaType":"%[1]smanifest.v1+json",`+
					`"digest":%[2]q,"size":%[3]d,"platform":{"os":"linux","architecture":%[4]q}}]}`, kind, digest.FromString(top), len(top), c.listed)
				blobs = append(blobs, top)
			}
			dir := t.TempDir()
			for _, content := range blobs {
				write(t, dir, "blobs/sha256/"+digest.FromString(content).Encoded(), content)
			}
			write(t, dir, "index.json", fmt.Sprintf(`{"manifests":[{"digest":%q}]}`, digest.FromString(top)))
			images, err := ReadLayout(dir)
			if err != nil {
				t.Fatal(err)
			}
			client, img := clientOf(t, images[0], "linux/arm64")
			if strings.HasSuffix(name, ", asked for") {
				client.TakeAnyArchitecture(img[0])
			}
			resolved, err := client.Resolve(t.Context(), img, nil)
			switch {
			case c.want == "":
				if !errors.Is(err, ErrPlatform) {
					t.Errorf("got %v, want %v", err, ErrPlatform)
				}
			case err != nil:
				t.Error(err)
			case c.want == "none" && resolved[0].Warning != "", c.want != "none" && !strings.Contains(resolved[0].Warning, c.want):
				t.Errorf("got the warning %q, want %q", resolved[0].Warning, c.want)
			}
		})
	}
}
