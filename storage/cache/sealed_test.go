package cache_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/cache"
)

// A sealed entry is what was put, or there is none: one that was damaged, cut, or copied over another is not
// returned, and Verify removes it.
func TestSealed(t *testing.T) {
	c, dir := open(t)
	of := func(name string) cache.Key {
		return cache.Sealed(cache.Key{Digest: digest.FromString(name), Blob: digest.FromString("old"), Encoding: "patch-1"})
	}
	file := func(name string) string {
		k := of(name)
		return filepath.Join(dir, "layers", k.Encoding, k.Digest.Encoded()+"-"+k.Blob.Encoded())
	}
	change := map[string]func(t *testing.T){
		"good":    func(*testing.T) {},
		"damaged": func(t *testing.T) { rewrite(t, file("damaged"), func(b []byte) []byte { b[2] ^= 1; return b }) },
		"cut":     func(t *testing.T) { rewrite(t, file("cut"), func(b []byte) []byte { return b[:len(b)-1] }) },
		"empty":   func(t *testing.T) { rewrite(t, file("empty"), func([]byte) []byte { return nil }) },
		"another": func(t *testing.T) {
			good, err := os.ReadFile(file("good"))
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, file("another"), func([]byte) []byte { return good })
		},
	}
	for name := range change {
		if err := c.PutSealed(of(name), []byte("the patch of "+name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range change {
		f(t)
		want := []byte("the patch of " + name)
		if got, ok := c.GetSealed(of(name)); ok != (name == "good") || ok && !bytes.Equal(got, want) {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
	}
	damaged, err := c.Verify(t.Context(), nil)
	if err != nil || len(damaged) != 4 {
		t.Errorf("Verify: got %v, %v, want the four that are not good", damaged, err)
	}
	if left, err := c.Entries(); err != nil || len(left) != 1 || left[0].Key != of("good") {
		t.Errorf("got %v, %v, want the good one", left, err)
	}
	var none cache.Cache
	if err := none.PutSealed(of("good"), nil); err != nil {
		t.Error(err)
	}
	if _, ok := none.GetSealed(of("good")); ok {
		t.Error("the zero Cache has an entry")
	}
}

func rewrite(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}
