package look_test

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/look"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

func TestFind(t *testing.T) {
	d := func(digits string) digest.Digest {
		return digest.Digest("sha256:" + digits + strings.Repeat("0", 64-len(digits)))
	}
	images := []pinset.LockedImage{
		{Pin: "quay.io/site/app@" + string(d("abcd1")), Tags: []string{"quay.io/site/app:1.0"}, Manifest: d("abcd1"), Config: d("c1")},
		{Pin: "quay.io/site/db@" + string(d("abcd2")), Index: d("abcd2"), Manifest: d("2222"), Config: d("c2c2")},
		{Pin: "quay.io/other/db@" + string(d("3333")), Manifest: d("3333"), Config: d("c3c3")},
		{Pin: "mirror.io/site/db@" + string(d("4444")), Manifest: d("4444"), Config: d("c2c2")}, // the same image
	}
	for text, test := range map[string]struct {
		want int    // the number of the image, or -1
		hint string // what it contains then
	}{
		images[1].Pin:          {1, ""},
		"quay.io/site/app:1.0": {0, ""},
		"app:1.0":              {0, ""},
		"app":                  {0, ""},
		"quay.io/other/db":     {2, ""},
		"sha256:abcd1":         {0, ""},
		"abcd2":                {1, ""},
		"2222":                 {1, ""},
		"c2c2":                 {1, ""},
		string(d("3333")):      {2, ""},
		"abcd":                 {-1, "name one by its pin, such as quay.io/site/app@sha256:abcd1"},
		"db":                   {-1, "quay.io/other/db@sha256:3333"},
		"abc":                  {-1, "do you mean quay.io/site/app@sha256:abcd1"},
		"ap:1.0":               {-1, "do you mean app:1.0? `pinbox ls OUT` lists the images"},
		"site/app":             {-1, "do you mean quay.io/site/app@"},
		"APP":                  {-1, "do you mean quay.io/site/app@"},
		"nothing like it":      {-1, "`pinbox ls OUT` lists the images"},
		"":                     {-1, "lists the images"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := look.Find(images, text)
			if test.want >= 0 {
				if err != nil || got.Pin != images[test.want].Pin {
					t.Errorf("got %s, %v; want %s", got.Pin, err, images[test.want].Pin)
				}
				return
			}
			if f := fault.Of(err); f == nil || f.Exit != fault.Input || !strings.Contains(f.Hint, test.hint) {
				t.Errorf("got %v, %+v; want exit code %d and the hint %q", err, f, fault.Input, test.hint)
			}
		})
	}
}
