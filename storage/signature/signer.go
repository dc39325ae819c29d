package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/fips140"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrPassphrase says that a secret key could not be decrypted.
var ErrPassphrase = fault.New(fault.Input, "the passphrase of the key is missing or wrong",
	"give it on a terminal, with --sign-passphrase-file, or in the file that PINBOX_SIGN_PASSPHRASE_FILE names")

// Signer makes signatures. The zero value makes none.
type Signer struct{ key crypto.Signer }

// IsZero reports whether the signer makes no signatures.
func (s Signer) IsZero() bool { return s.key == nil }

// Sign returns the signature of a text.
func (s Signer) Sign(text []byte) ([]byte, error) {
	hash := crypto.Hash(0) // Ed25519 takes the text itself
	if _, ok := s.key.(*ecdsa.PrivateKey); ok {
		sum := sha256.Sum256(text)
		text, hash = sum[:], crypto.SHA256
	}
	signature, err := s.key.Sign(rand.Reader, text, hash)
	return base64.StdEncoding.AppendEncode(nil, signature), err
}

// ReadSigner reads a secret key: plain PKCS#8, as `openssl genpkey` writes it, or the cosign.key of
// `cosign generate-key-pair`.
func ReadSigner(name string, passphrase []byte) (Signer, error) {
	text, err := readLimited(name, maxKey)
	if err != nil {
		return Signer{}, fmt.Errorf("%s: %w: %w", name, ErrKey, err)
	}
	key, err := parseSecret(text, passphrase)
	if err != nil {
		return Signer{}, fmt.Errorf("%s: %w", name, err)
	}
	return Signer{key}, nil
}

// parseSecret parses a key, also in the encryption of go-securesystemslib: cosign, pkg/cosign/keys.go.
func parseSecret(text, passphrase []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		block = &pem.Block{}
	}
	der := block.Bytes
	switch block.Type {
	case "PRIVATE KEY":
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		if fips140.Enforced() { // scrypt and NaCl are not in the module, and their library does not ask
			return nil, fmt.Errorf("%w: the encryption of cosign.key is not in the FIPS 140-3 module, and GODEBUG=fips140=only "+
				"forbids it: use a key without a passphrase, or sign with another program", ErrKey)
		}
		var err error
		if der, err = encrypted.Decrypt(der, passphrase); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPassphrase, err)
		}
	default:
		return nil, fmt.Errorf("%w: want a PRIVATE KEY in PEM, or the cosign.key of `cosign generate-key-pair`", ErrKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: it does not sign", ErrKey)
	}
	if err := checkKind(key.Public()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return key, nil
}
