package stores_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"
	"golang.org/x/crypto/blake2b"

	"github.com/pinbox/pinbox/runtime/stores"
)

// signers make a key pair and sign a store with it. They return the public key, the signature, and its
// suffix.
var signers = map[string]func(t *testing.T, store []byte) (key, signature []byte, suffix string){
	"minisign": func(t *testing.T, store []byte) (key, signature []byte, suffix string) {
		public, secret, err := minisign.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		sum := blake2b.Sum512(store)
		message, errSign := secret.Sign(nil, sum[:], crypto.BLAKE2b_512)
		key, err = public.MarshalText()
		if err := errors.Join(errSign, err); err != nil {
			t.Fatal(err)
		}
		return key, message, ".minisig"
	},
	"cosign": func(t *testing.T, store []byte) (key, signature []byte, suffix string) {
		secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public, errKey := x509.MarshalPKIXPublicKey(secret.Public())
		sum := sha256.Sum256(store)
		signature, err = ecdsa.SignASN1(rand.Reader, secret, sum[:])
		if err := errors.Join(errKey, err); err != nil {
			t.Fatal(err)
		}
		key = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
		return key, base64.StdEncoding.AppendEncode(nil, signature), ".sig"
	},
}

// A node takes keys of minisign and cosign, too. It knew only OpenPGP.
func TestKeysOfMinisignAndCosign(t *testing.T) {
	for name, sign := range signers {
		for what, c := range map[string]struct {
			change func(signed []byte) []byte
			others bool // the store also has signatures of somebody else, in other forms
			want   error
		}{
			"signed":             {change: func(signed []byte) []byte { return signed }},
			"signed by two":      {change: func(signed []byte) []byte { return signed }, others: true},
			"another is signed":  {change: func(signed []byte) []byte { return signed[1:] }, want: stores.ErrSignature},
			"an empty signature": {change: nil, want: stores.ErrUnsigned},
		} {
			t.Run(name+": "+what, func(t *testing.T) {
				d := newNode(t, testStore{n: 0})
				store := filepath.Join(delta(1).folder(t), "delta.squashfs")
				content, err := os.ReadFile(store)
				if err != nil {
					t.Fatal(err)
				}
				if c.change != nil {
					content = c.change(content)
				}
				key, signature, suffix := sign(t, content)
				if c.change == nil {
					signature = nil
				}
				write(t, store+suffix, string(signature))
				if c.others {
					newOpenPGP(t, store)
				}
				d.requireSignatures(key)
				if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: store}); !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if c.want == nil {
					d.wantMounted(1)
				} else {
					d.wantUntouched()
				}
			})
		}
	}
}

// newOpenPGP signs a store with a new OpenPGP key, in a file .asc.
func newOpenPGP(t *testing.T, store string) { sign(t, store, true) }
