package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/signature"
)

// sign signs a store with a new key and returns the public key.
func sign(t *testing.T, store string) (key []byte) {
	t.Helper()
	secret, public := fixtures.Key(t)
	fixtures.SignStore(t, store, secret)
	key, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// longestSignature is the maximum size of a signature in bytes.
const longestSignature = 64 << 10

// signedStores are nodes and stores, signed or not. The node has one key; change changes it or the store.
var signedStores = map[string]struct {
	signed     bool
	change     func(t *testing.T, d *testNode, store string)
	unverified bool
	want       error
	text       string // of the error
}{
	"signed":             {signed: true},
	"not signed":         {want: stores.ErrUnsigned},
	"not signed, no key": {change: removeKeys},
	"signed, no key":     {signed: true, change: removeKeys, unverified: true},
	"signed, an empty folder of keys": {signed: true, unverified: true, change: func(t *testing.T, d *testNode, _ string) {
		removeKeys(t, d, "")
		if err := os.Mkdir(d.Keys, 0o755); err != nil {
			t.Fatal(err)
		}
	}},
	"another key": {signed: true, want: stores.ErrSignature, change: func(t *testing.T, d *testNode, store string) {
		write(t, filepath.Join(d.Keys, "site.pub"), newKey(t, store))
	}},
	"another is signed": {want: stores.ErrSignature, change: func(t *testing.T, d *testNode, store string) {
		other := delta(2).folder(t)
		write(t, filepath.Join(d.Keys, "site.pub"), string(sign(t, filepath.Join(other, "delta.squashfs"))))
		text, err := os.ReadFile(filepath.Join(other, "delta.squashfs.sig"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, store+".sig", string(text))
	}},
	"an empty signature": {signed: true, want: stores.ErrUnsigned, change: func(t *testing.T, _ *testNode, store string) {
		write(t, store+".sig", "")
	}},
	"two keys": {signed: true, change: func(t *testing.T, d *testNode, store string) {
		write(t, filepath.Join(d.Keys, "a.pub"), newKey(t, store))
	}},
	"a long signature": {want: stores.ErrSignature, text: "it has more than 64 KiB",
		change: func(t *testing.T, _ *testNode, store string) {
			write(t, store+".sig", strings.Repeat("x", longestSignature+1))
		}},
	"the longest signature": {want: stores.ErrSignature, text: "none of the keys has signed this",
		change: func(t *testing.T, d *testNode, store string) {
			write(t, store+".sig", strings.Repeat("x", longestSignature))
			removeKeys(t, d, "")
			write(t, filepath.Join(d.Keys, "x.pub"), newKey(t, store))
		}},
	"a file that is no key": {signed: true, want: signature.ErrKey,
		change: func(t *testing.T, d *testNode, _ string) { write(t, filepath.Join(d.Keys, "note"), "a note") }},
	"a folder among the keys": {signed: true, want: syscall.EISDIR,
		change: func(t *testing.T, d *testNode, _ string) { write(t, filepath.Join(d.Keys, "folder", "a"), "") }},
	"a file of keys": {signed: true, want: syscall.ENOTDIR, change: func(t *testing.T, d *testNode, _ string) {
		removeKeys(t, d, "")
		write(t, d.Keys, "")
	}},
}

// A node that requires signatures attaches nothing while it has no keys, and names the folder that it has read.
func TestSignaturesAreRequiredWithoutKeys(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.Signed = true
	store := filepath.Join(delta(1).folder(t), "delta.squashfs")
	key := sign(t, store)
	_, err := d.Attach(t.Context(), stores.AttachOptions{Source: store})
	if !errors.Is(err, stores.ErrNoKeys) || !strings.Contains(err.Error(), d.Keys) {
		t.Errorf("got %v, want %v with %s", err, stores.ErrNoKeys, d.Keys)
	}
	d.wantUntouched()
	write(t, filepath.Join(d.Keys, "site.pub"), string(key))
	d.attach(stores.AttachOptions{Source: store})
	d.wantMounted(1)
}

// A node with keys attaches only stores that are signed with one of them; a node without keys attaches all.
func TestSignedStores(t *testing.T) {
	for name, c := range signedStores {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			store := filepath.Join(delta(1).folder(t), "delta.squashfs")
			signed := store
			if !c.signed {
				signed = filepath.Join(copyStore(t, filepath.Dir(store)), "delta.squashfs")
			}
			write(t, filepath.Join(d.Keys, "site.pub"), string(sign(t, signed)))
			if c.change != nil {
				c.change(t, d, store)
			}
			dry := d.Manager
			dry.DryRun = true
			plan, planErr := dry.Attach(t.Context(), stores.AttachOptions{Source: store})
			d.wantUntouched()
			a, err := d.Attach(t.Context(), stores.AttachOptions{Source: store})
			if !errors.Is(planErr, c.want) || plan.Unverified != c.unverified {
				t.Errorf("a dry run: got %v, unverified %v, want %v, %v", planErr, plan.Unverified, c.want, c.unverified)
			}
			if !errors.Is(err, c.want) || a.Unverified != c.unverified {
				t.Fatalf("got %v, unverified %v, want %v, %v", err, a.Unverified, c.want, c.unverified)
			}
			if err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %q in it", err, c.text)
			}
			if c.want == nil {
				d.wantMounted(1)
			} else {
				d.wantUntouched()
			}
		})
	}
}

func removeKeys(t *testing.T, d *testNode, _ string) {
	t.Helper()
	if err := os.RemoveAll(d.Keys); err != nil {
		t.Fatal(err)
	}
}

// newKey signs a copy of a store and returns the key.
func newKey(t *testing.T, store string) string {
	t.Helper()
	return string(sign(t, filepath.Join(copyStore(t, filepath.Dir(store)), filepath.Base(store))))
}
