package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// What a probe refuses, it refuses on a machine that is no node, by the path, with the error of an attach. It writes
// nothing.
func TestProbe(t *testing.T) {
	foreign := delta(1)
	foreign.damage = otherArchitecture
	content := foreign.squashfs(t)
	treed := filepath.Join(t.TempDir(), "delta.squashfs")
	write(t, treed, string(delta(1).squashfs(t)))
	fixtures.AddTree(t, treed)
	whole, err := os.ReadFile(treed)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		store []byte // nil for none
		key   bool
		want  error
	}{
		"a store":                 {store: delta(1).squashfs(t)},
		"with a hash tree":        {store: whole},
		"cut in the data":         {store: whole[:500], want: stores.ErrDamaged},
		"cut in the tree":         {store: whole[:len(whole)-1], want: stores.ErrDamaged},
		"empty":                   {store: []byte{}, want: stores.ErrDamaged},
		"another architecture":    {store: content, want: stores.ErrPlatform},
		"nothing":                 {want: stores.ErrNoStore},
		"no signature":            {store: whole, key: true, want: stores.ErrUnsigned},
		"no signature, and empty": {store: []byte{}, key: true, want: stores.ErrUnsigned},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := stores.Manager{Dir: filepath.Join(dir, "stores.d"), Keys: filepath.Join(dir, "keys.d")}
			if test.key {
				_, public := fixtures.Key(t)
				key, err := os.ReadFile(public)
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(m.Keys, "site.pub"), string(key))
			}
			source := filepath.Join(dir, "usb")
			if test.store != nil {
				write(t, filepath.Join(source, "delta.squashfs"), string(test.store))
				write(t, filepath.Join(source, "SHA256SUMS"), digest.FromBytes(test.store).Encoded()+"  delta.squashfs\n")
			}
			before := fixtures.Tree(t, dir)
			err := m.Probe(source)
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), source) {
				t.Errorf("got %v, want %v of %s", err, test.want, source)
			}
			if after := fixtures.Tree(t, dir); len(after) != len(before) {
				t.Errorf("got %v, want nothing written", after)
			}
		})
	}
	if err := (stores.Manager{Dir: t.TempDir()}).Probe("42"); !errors.Is(err, stores.ErrNotAttached) {
		t.Errorf("got %v, want ErrNotAttached", err)
	}
}
