package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
)

// Errors of keys and of signatures.
var (
	ErrKey = fault.New(fault.Input, "not a key that pinbox can use",
		"docs/signing.md says how openssl and cosign make the file")
	ErrUnsigned = fault.New(fault.Damaged, "no signature",
		"sign it with --sign-key of `pinbox build`, `delta` or `medium`, or leave out --key")
	ErrInvalid = fault.New(fault.Damaged, "the signature is not valid",
		"find out who made it; --key names the key of the one who should have")
)

// maxKey is the maximum size of a file of keys in bytes.
const maxKey = 1 << 20

// Keys are public keys: *ecdsa.PublicKey with P-256, and ed25519.PublicKey.
type Keys []crypto.PublicKey

// IsEmpty reports whether there is no key.
func (k Keys) IsEmpty() bool { return len(k) == 0 }

// ReadKeysDir reads the keys of all files in a folder. A folder that is missing has none.
func ReadKeysDir(dir string) (keys Keys, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		more, err := ReadKeys(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// ReadKeys reads a file of keys, as `cosign generate-key-pair` and `openssl pkey -pubout` write them. A file
// without a key is an error.
func ReadKeys(name string) (Keys, error) {
	var keys Keys
	text, err := readLimited(name, maxKey)
	if err == nil {
		keys, err = parseKeys(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrKey, err)
	}
	return keys, nil
}

func parseKeys(text []byte) (keys Keys, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "PUBLIC KEY" {
			return nil, errors.New("want PEM blocks of the type PUBLIC KEY alone")
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err == nil {
			err = checkKind(key)
		}
		if err != nil {
			return nil, err
		}
		keys, text = append(keys, key), rest
	}
	if keys.IsEmpty() { // an empty file; without an error no signature would be required
		return nil, errors.New("the file has no key")
	}
	return keys, nil
}

// checkKind refuses other keys: versions of cosign use different hashes for them.
func checkKind(key crypto.PublicKey) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return nil
		}
	}
	return errors.New("want a key of ECDSA with the curve P-256, or of Ed25519")
}

// readLimited reads a regular file of at most limit bytes.
func readLimited(name string, limit int64) ([]byte, error) {
	f, err := input.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it has more than %d KiB", limit>>10)
	}
	return text, err
}
