package verify_test

import (
	"strings"
	"testing"
)

// A provenance statement that fits the sums is about these files and these images.
func TestContradictingProvenance(t *testing.T) {
	s, other := built(t), strings.Repeat("0", 64)
	for name, test := range map[string]struct {
		dir, script, want string
	}{
		"damaged": {s.base, "echo x >provenance.json", "provenance.json: not a provenance statement"},
		"of another appliance": {
			s.base, "cp " + s.live + "/provenance.json .", "provenance.json does not list ",
		},
		"of another store": {
			s.base, "sed -i s/$(sha256sum store.squashfs | cut -c1-64)/" + other + "/ provenance.json",
			"provenance.json is not about store.squashfs with the SHA-256 ",
		},
		"without the ISO": {
			s.live, "sed -i s/$(sha256sum appliance.iso | cut -c1-64)/" + other + "/ provenance.json",
			"provenance.json is not about appliance.iso with the SHA-256 ",
		},
		"of more": {
			s.base, `sed -i '/"subject"/a {"name": "more", "digest": {"sha256": "` + other + `"}},' provenance.json`,
			"provenance.json is about 3 files, want 2",
		},
		"of another image": {
			s.third, "sed -i s,docker://,docker://x/, provenance.json", "provenance.json does not list ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, test.dir)
			shell(t, dir, test.script)
			resum(t, dir)
			_, err := artifactOf(t, dir)
			wantProblem(t, err, test.want)
		})
	}
}
