package signature

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"testing"
)

// No signature but one by a key of the node is taken, whatever its bytes are.
func FuzzSignature(f *testing.F) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	public, ed, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []Signer{{ec}, {ed}} {
		signature, err := s.Sign([]byte("x"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(signature)
	}
	keys := Keys{ec.Public(), public}
	f.Fuzz(func(t *testing.T, signature []byte) {
		if err := keys.Verify([]byte("a store"), signature); err == nil {
			t.Error("got no error, want that the signature is not by this key")
		}
	})
}
