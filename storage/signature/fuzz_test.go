package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// No signature but one by a key of the node is taken, whatever its bytes are.
func FuzzSignature(f *testing.F) {
	config := &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}
	entity, err := openpgp.NewEntity("site", "", "site@example.com", config)
	if err != nil {
		f.Fatal(err)
	}
	other, err := openpgp.NewEntity("other", "", "other@example.com", config)
	if err != nil {
		f.Fatal(err)
	}
	content := []byte("a store")
	for _, sign := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return openpgp.DetachSign(b, other, bytes.NewReader(content), config) },
		func(b *bytes.Buffer) error {
			return openpgp.ArmoredDetachSign(b, other, bytes.NewReader(content), config)
		},
		func(b *bytes.Buffer) error {
			return openpgp.DetachSign(b, entity, bytes.NewReader([]byte("x")), config)
		},
	} {
		var b bytes.Buffer
		if err := sign(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	var public bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(f.TempDir(), "key")
	if err := os.WriteFile(file, public.Bytes(), 0o600); err != nil {
		f.Fatal(err)
	}
	keys, err := ReadKeys(file)
	if err != nil {
		f.Fatal(err)
	}
	addOtherForms(f, &keys)
	f.Fuzz(func(t *testing.T, signature []byte) {
		if err := keys.Verify(bytes.NewReader(content), signature); err == nil {
			t.Error("got no error, want that the signature is not by this key")
		}
	})
}

// addOtherForms adds a key of minisign and one of cosign, and seeds that they have signed.
func addOtherForms(f *testing.F, keys *Keys) {
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	message := minisign.NewReader(strings.NewReader("x"))
	if _, err := io.Copy(io.Discard, message); err != nil {
		f.Fatal(err)
	}
	f.Add(message.Sign(secret))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	sum := sha256.Sum256([]byte("x"))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(base64.StdEncoding.AppendEncode(nil, signature))
	keys.minisign, keys.cosign = []minisign.PublicKey{public}, []*ecdsa.PublicKey{&key.PublicKey}
}
