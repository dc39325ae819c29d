package pinset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

const sum = digest.Digest("sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea")

// The error of a short name has the full name.
func TestParseReference(t *testing.T) {
	short := pinset.ErrShortName
	for name, test := range map[string]struct {
		want pinset.Reference
		err  error
		text string
	}{
		"quay.io/a/b":                 {pinset.Reference{Repository: "quay.io/a/b", Tag: "latest"}, nil, ""},
		"quay.io/a/b:1":               {pinset.Reference{Repository: "quay.io/a/b", Tag: "1"}, nil, ""},
		"localhost/a":                 {pinset.Reference{Repository: "localhost/a", Tag: "latest"}, nil, ""},
		"localhost:5000/a:1":          {pinset.Reference{Repository: "localhost:5000/a", Tag: "1"}, nil, ""},
		"quay.io/a@" + string(sum):    {pinset.Reference{Repository: "quay.io/a", Digest: sum}, nil, ""},
		"quay.io/a:1@" + string(sum):  {pinset.Reference{Repository: "quay.io/a", Tag: "1", Digest: sum}, nil, ""},
		"nginx":                       {err: short, text: "it does not name its registry; write docker.io/library/nginx"},
		"a/nginx":                     {err: short, text: "it does not name its registry; write docker.io/a/nginx"},
		"docker.io/nginx":             {err: short, text: "it lacks the path library/; write docker.io/library/nginx"},
		"index.docker.io/library/x:1": {want: pinset.Reference{Repository: "docker.io/library/x", Tag: "1"}},
		"quay.io/A":                   {err: pinset.ErrBadName},
		"quay.io/a@sha512:" + strings.Repeat("a", 128): {err: pinset.ErrNotPinned, text: "by sha512"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pinset.ParseReference(name)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %+v, %v, want %+v, %v", got, err, test.want, test.err)
			}
			if err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("got error %v, want one with %q", err, test.text)
			}
		})
	}
}

// Expand adds the parts of a name that a container's image may leave out.
func TestExpand(t *testing.T) {
	for name, test := range map[string]struct {
		want  string
		short bool
	}{
		"quay.io/a":                {"quay.io/a:latest", false},
		"localhost/a:1":            {"localhost/a:1", false},
		"docker.io/nginx":          {"docker.io/library/nginx:latest", false},
		"nginx":                    {"docker.io/library/nginx:latest", true},
		"site/nginx:1":             {"docker.io/site/nginx:1", true},
		"quay.io/a@" + string(sum): {"quay.io/a@" + string(sum), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, short, err := pinset.Expand(name)
			if err != nil || got.String() != test.want || short != test.short {
				t.Errorf("got %s, short %v, %v, want %s, short %v", got, short, err, test.want, test.short)
			}
		})
	}
	if _, _, err := pinset.Expand("quay.io/A"); !errors.Is(err, pinset.ErrBadName) {
		t.Errorf("got %v, want %v", err, pinset.ErrBadName)
	}
}

// The names of a reference are its repository with the tag, the digest or both.
func TestNamesOfAReference(t *testing.T) {
	for _, test := range []struct {
		ref          pinset.Reference
		want, tagged string
	}{
		{pinset.Reference{Repository: "quay.io/a"}, "quay.io/a", ""},
		{pinset.Reference{Repository: "quay.io/a", Tag: "1"}, "quay.io/a:1", "quay.io/a:1"},
		{pinset.Reference{Repository: "quay.io/a", Digest: sum}, "quay.io/a@" + string(sum), ""},
		{pinset.Reference{Repository: "quay.io/a", Tag: "1", Digest: sum}, "quay.io/a:1@" + string(sum), ""},
	} {
		t.Run(test.want, func(t *testing.T) {
			if got, tagged := test.ref.String(), test.ref.TagName(); got != test.want || tagged != test.tagged {
				t.Errorf("got %q, tag name %q, want %q, %q", got, tagged, test.want, test.tagged)
			}
		})
	}
}
