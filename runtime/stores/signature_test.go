package stores_test

import (
	"bytes"
	"crypto"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	openpgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/runtime/stores"
)

// sign signs a store with a new key and returns the public key.
func sign(t *testing.T, store string, armoured bool) (key []byte) {
	t.Helper()
	return signWith(t, store, armoured, nil)
}

// signWith is sign with another algorithm, or at another time.
func signWith(t *testing.T, store string, armoured bool, config *packet.Config) (key []byte) {
	t.Helper()
	entity, err := openpgp.NewEntity("site", "", "site@example.com", config)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var sig, pub bytes.Buffer
	name, by := store+".sig", openpgp.DetachSign
	if armoured {
		name, by = store+".asc", openpgp.ArmoredDetachSign
	}
	if err := by(&sig, entity, f, config); err != nil {
		t.Fatal(err)
	}
	w, err := armor.Encode(&pub, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{entity.Serialize(w), w.Close(), os.WriteFile(name, sig.Bytes(), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return pub.Bytes()
}

// A node with keys attaches only stores that are signed with one of them.
func TestSignatures(t *testing.T) {
	s := newSystem(t, 2)
	s.mustRun("firstboot")
	keys := filepath.Join(s.Root, "etc/pinbox/keys.d")
	if err := os.MkdirAll(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	signed := ""
	for _, armoured := range []bool{false, true} {
		signed = copyStore(t, s.stores[1])
		other := copyStore(t, s.stores[1])
		key := sign(t, filepath.Join(signed, artifact.DeltaStoreFile), armoured)
		sign(t, filepath.Join(other, artifact.DeltaStoreFile), armoured)
		if err := os.WriteFile(filepath.Join(keys, "site.asc"), key, 0o644); err != nil {
			t.Fatal(err)
		}
		s.wantExit(4, "the store has no signature, and this node requires one", "attach", s.stores[1])
		s.wantExit(4, "the signature of the store is not valid", "attach", other)
		s.wantExit(3, "dm-verity, which is required, since this node requires signatures", "attach", signed, "--in-place")
		s.wantPinned(0)
		if _, err := verify.Artifact(t.Context(), signed, progress.Hooks{}); err != nil {
			t.Error(err)
		}
		s.wantExit(4, "the signature of the store is not valid", "attach", newLoopDevice(t, other))
		s.mustRun("attach", newLoopDevice(t, signed))
		s.wantPinned(1)
		s.mustRun("rollback")
		s.mustRun("detach", "1")
	}
	if err := os.Remove(filepath.Join(keys, "site.asc")); err != nil {
		t.Fatal(err)
	}
	if out := s.mustRun("attach", signed).Out; !strings.Contains(out, "its signature was not checked") {
		t.Errorf("without keys: got %s, want that the signature was not checked", out)
	}
}

// longestSignature is the maximum size of a signature in bytes.
const longestSignature = 64 << 10

// signedStores are nodes and stores, signed or not. The node has one key; change changes it or the store.
var signedStores = map[string]struct {
	signed, armoured bool
	change           func(t *testing.T, d *testNode, store string)
	unverified       bool
	want             error
	text             string // of the error
}{
	"signed":             {signed: true},
	"signed in text":     {signed: true, armoured: true},
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
		write(t, filepath.Join(d.Keys, "site.asc"), newKey(t, store))
	}},
	"two keys": {signed: true, change: func(t *testing.T, d *testNode, store string) {
		write(t, filepath.Join(d.Keys, "a.asc"), newKey(t, store))
	}},
	"a long signature": {want: stores.ErrSignature, text: "it has more than 64 KiB",
		change: func(t *testing.T, _ *testNode, store string) {
			write(t, store+".sig", strings.Repeat("x", longestSignature+1))
		}},
	"the longest signature": {want: stores.ErrSignature, text: "it is by none of the keys",
		change: func(t *testing.T, d *testNode, store string) {
			write(t, store+".sig", strings.Repeat("x", longestSignature))
			removeKeys(t, d, "")
			write(t, filepath.Join(d.Keys, "x.asc"), newKey(t, store))
		}},
	"a file that is no key": {signed: true, want: openpgperrors.StructuralError("tag byte does not have MSB set"),
		change: func(t *testing.T, d *testNode, _ string) { write(t, filepath.Join(d.Keys, "note"), "a note") }},
	"a folder among the keys": {signed: true, want: syscall.EISDIR,
		change: func(t *testing.T, d *testNode, _ string) { write(t, filepath.Join(d.Keys, "folder", "a"), "") }},
	"a file of keys": {signed: true, want: syscall.ENOTDIR, change: func(t *testing.T, d *testNode, _ string) {
		removeKeys(t, d, "")
		write(t, d.Keys, "")
	}},
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
			write(t, filepath.Join(d.Keys, "site.asc"), string(sign(t, signed, c.armoured)))
			if c.change != nil {
				c.change(t, d, store)
			}
			a, err := d.Attach(t.Context(), stores.AttachOptions{Source: store})
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

// signWithSHA1 is sign with a hash that openpgp does not sign with.
func signWithSHA1(t *testing.T, store string) (key []byte) {
	t.Helper()
	entity, err := openpgp.NewEntity("site", "", "site@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoRSA})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	s := packet.Signature{
		Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: packet.PubKeyAlgoRSA, Hash: crypto.SHA1,
		CreationTime: time.Now(), IssuerKeyId: &entity.PrimaryKey.KeyId,
	}
	plain := &packet.Config{NonDeterministicSignaturesViaNotation: new(bool)} // it has no salt for SHA-1
	hash := crypto.SHA1.New()
	hash.Write(content)
	var sig, pub bytes.Buffer
	for _, step := range []func() error{
		func() error { return s.Sign(hash, entity.PrivateKey, plain) },
		func() error { return s.Serialize(&sig) },
		func() error { return entity.Serialize(&pub) },
		func() error { return os.WriteFile(store+".sig", sig.Bytes(), 0o644) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return pub.Bytes()
}

// Only SHA-2 and keys that cannot be forged count. The clock of a node may be behind that of the build
// host: a signature is not expired then.
func TestSignatureAlgorithmsAndTimes(t *testing.T) {
	at := func(change time.Duration) func() time.Time {
		return func() time.Time { return time.Now().Add(change) }
	}
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		config packet.Config
		behind bool
		want   string // "" for a good signature
	}{
		"SHA-512":               {packet.Config{DefaultHash: crypto.SHA512}, false, ""},
		"SHA-1":                 {packet.Config{}, false, "hash algorithm"},
		"RSA with 2048 bits":    {packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 2048}, false, ""},
		"RSA with 1024 bits":    {packet.Config{Algorithm: packet.PubKeyAlgoRSA, RSABits: 1024}, false, "1024 bits, want 2048"},
		"expired":               {packet.Config{Time: at(-2 * day), SigLifetimeSecs: 3600}, false, "expired"},
		"of tomorrow":           {packet.Config{Time: at(day)}, true, ""},
		"of tomorrow, for long": {packet.Config{Time: at(day), SigLifetimeSecs: 3600, KeyLifetimeSecs: 3600}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			store := filepath.Join(delta(1).folder(t), "delta.squashfs")
			key := signWith(t, store, name == "SHA-512", &c.config)
			if name == "SHA-1" {
				key = signWithSHA1(t, store)
			}
			d.requireSignatures(key)
			a, err := d.Attach(t.Context(), stores.AttachOptions{Source: store})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if a.JudgedAt.IsZero() == c.behind {
				t.Errorf("got judged at %v, want that the clock is behind: %v", a.JudgedAt, c.behind)
			}
			if c.want != "" {
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
	return string(sign(t, filepath.Join(copyStore(t, filepath.Dir(store)), filepath.Base(store)), false))
}
