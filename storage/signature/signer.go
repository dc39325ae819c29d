package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	"aead.dev/minisign"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/pinbox/pinbox/storage/layout"
)

// ErrPassphrase says that a secret key could not be decrypted.
var ErrPassphrase = errors.New("the passphrase of the key is missing or wrong")

// Signer makes signatures. The zero value makes none.
type Signer struct {
	suffix string
	sign   func(signed io.Reader) ([]byte, error)
}

// IsZero reports whether the signer makes no signatures.
func (s Signer) IsZero() bool { return s.sign == nil }

// Suffix is what the signature's file has in addition to the name of the signed one, as its tool names it.
func (s Signer) Suffix() string { return s.suffix }

// Sign returns the signature of what it reads.
func (s Signer) Sign(signed io.Reader) ([]byte, error) { return s.sign(signed) }

// ReadSigner reads a secret key: of `gpg --export-secret-keys`, with or without --armor, of `minisign -G`, or
// of `cosign generate-key-pair`.
func ReadSigner(name string, passphrase []byte) (Signer, error) {
	text, err := readLimited(name, maxKey)
	if err != nil {
		return Signer{}, fmt.Errorf("%s: %w: %w", name, ErrKey, err)
	}
	read := openPGPSigner
	switch formOf(text) {
	case formMinisign:
		read = minisignSigner
	case formPEM:
		read = cosignSigner
	}
	s, err := read(text, passphrase)
	if err != nil {
		return Signer{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func minisignSigner(text, passphrase []byte) (Signer, error) {
	var key minisign.PrivateKey
	if minisign.IsEncrypted(text) {
		var err error
		if key, err = minisign.DecryptKey(string(passphrase), text); err != nil {
			return Signer{}, ErrPassphrase
		}
	} else if err := key.UnmarshalText(text); err != nil {
		return Signer{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return Signer{layout.MinisignSuffix, func(signed io.Reader) ([]byte, error) {
		message := minisign.NewReader(signed)
		if _, err := io.Copy(io.Discard, message); err != nil {
			return nil, err
		}
		return message.Sign(key), nil
	}}, nil
}

// cosignSigner reads a key in the encryption of go-securesystemslib: cosign, pkg/cosign/keys.go.
func cosignSigner(text, passphrase []byte) (Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "ENCRYPTED SIGSTORE PRIVATE KEY" && block.Type != "ENCRYPTED COSIGN PRIVATE KEY" {
		return Signer{}, fmt.Errorf("%w: want the cosign.key of `cosign generate-key-pair`", ErrKey)
	}
	der, err := encrypted.Decrypt(block.Bytes, passphrase)
	if err != nil {
		return Signer{}, fmt.Errorf("%w: %w", ErrPassphrase, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return Signer{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return Signer{}, fmt.Errorf("%w: %w", ErrKey, errNotP256)
	}
	return Signer{layout.SignatureSuffix, func(signed io.Reader) ([]byte, error) {
		h := sha256.New()
		if _, err := io.Copy(h, signed); err != nil {
			return nil, err
		}
		signature, err := ecdsa.SignASN1(rand.Reader, key, h.Sum(nil))
		return base64.StdEncoding.AppendEncode(nil, signature), err
	}}, nil
}

func openPGPSigner(text, passphrase []byte) (Signer, error) {
	keys, err := parseKeys(text)
	if err != nil {
		return Signer{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	if len(keys.openPGP) != 1 {
		return Signer{}, fmt.Errorf("%w: the file has %d OpenPGP keys, want one", ErrKey, len(keys.openPGP))
	}
	entity := keys.openPGP[0]
	key, ok := entity.SigningKey(time.Now())
	if !ok || key.PrivateKey == nil || key.PrivateKey.Dummy() {
		return Signer{}, fmt.Errorf("%w: it has no secret part that signs", ErrKey)
	}
	if key.PrivateKey.Encrypted {
		if err := key.PrivateKey.Decrypt(passphrase); err != nil {
			return Signer{}, fmt.Errorf("%w: %w", ErrPassphrase, err)
		}
	}
	return Signer{layout.ArmorSuffix, func(signed io.Reader) ([]byte, error) {
		var signature bytes.Buffer
		err := openpgp.ArmoredDetachSign(&signature, entity, signed, &packet.Config{SigningKeyId: key.PublicKey.KeyId})
		return signature.Bytes(), err
	}}, nil
}
