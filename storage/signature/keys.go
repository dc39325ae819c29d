package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"aead.dev/minisign"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/pinbox/pinbox/storage/input"
)

// Errors of keys and of signatures.
var (
	ErrKey      = errors.New("not a key that pinbox can use")
	ErrUnsigned = errors.New("no signature")
	ErrInvalid  = errors.New("the signature is not valid")
	// ErrOtherKey is the ErrInvalid of a signature that none of the keys can have made.
	ErrOtherKey = fmt.Errorf("%w: it is by none of the keys", ErrInvalid)
)

// maxKey is the maximum size of a file of keys in bytes: Debian's keyring of archive keys has 60 KB, and a
// key with many signatures of other people can have hundreds.
const maxKey = 1 << 20

// Keys are public keys. The zero value has none.
type Keys struct {
	openPGP  openpgp.EntityList
	minisign []minisign.PublicKey
	cosign   []*ecdsa.PublicKey
}

// IsEmpty reports whether there is no key.
func (k Keys) IsEmpty() bool { return len(k.openPGP)+len(k.minisign)+len(k.cosign) == 0 }

// ReadKeysDir reads the keys of all files in a folder. A folder that is missing has none.
func ReadKeysDir(dir string) (keys Keys, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Keys{}, nil
	}
	if err != nil {
		return Keys{}, err
	}
	for _, e := range entries {
		more, err := ReadKeys(filepath.Join(dir, e.Name()))
		if err != nil {
			return Keys{}, err
		}
		keys.openPGP = append(keys.openPGP, more.openPGP...)
		keys.minisign = append(keys.minisign, more.minisign...)
		keys.cosign = append(keys.cosign, more.cosign...)
	}
	return keys, nil
}

// ReadKeys reads a file of keys: OpenPGP keys, armored or not, a minisign.pub or a cosign.pub. A file
// without a key is an error.
func ReadKeys(name string) (Keys, error) {
	var keys Keys
	text, err := readLimited(name, maxKey)
	if err == nil {
		keys, err = parseKeys(text)
	}
	if err != nil {
		return Keys{}, fmt.Errorf("%s: %w: %w", name, ErrKey, err)
	}
	return keys, nil
}

func parseKeys(text []byte) (keys Keys, err error) {
	switch formOf(text) {
	case formMinisign:
		keys.minisign = make([]minisign.PublicKey, 1)
		err = keys.minisign[0].UnmarshalText(text)
	case formPEM:
		keys.cosign, err = parsePEM(text)
	default:
		read := openpgp.ReadKeyRing
		if formOf(text) == formArmor {
			read = openpgp.ReadArmoredKeyRing
		}
		if keys.openPGP, err = read(bytes.NewReader(text)); err == nil {
			err = checkOpenPGPKeys(keys.openPGP)
		}
	}
	if err == nil && keys.IsEmpty() { // an empty file; without an error no signature would be required
		err = errors.New("the file has no key")
	}
	return keys, err
}

// checkOpenPGPKeys refuses keys whose signatures can be forged: NIST SP 800-131A.
func checkOpenPGPKeys(keys openpgp.EntityList) error {
	const minBits = 2048
	for _, entity := range keys {
		public := []*packet.PublicKey{entity.PrimaryKey}
		for _, key := range entity.Subkeys {
			public = append(public, key.PublicKey)
		}
		for _, key := range public {
			if key.PubKeyAlgo == packet.PubKeyAlgoDSA {
				return fmt.Errorf("key %s: DSA is not accepted", key.KeyIdString())
			}
			if rsa, ok := key.PublicKey.(*rsa.PublicKey); ok && rsa.N.BitLen() < minBits {
				return fmt.Errorf("key %s: RSA with %d bits, want %d", key.KeyIdString(), rsa.N.BitLen(), minBits)
			}
		}
	}
	return nil
}

// parsePEM parses keys as `cosign generate-key-pair` and `openssl ec -pubout` write them.
func parsePEM(text []byte) (keys []*ecdsa.PublicKey, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "PUBLIC KEY" {
			return nil, errors.New("want PEM blocks of the type PUBLIC KEY alone")
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(*ecdsa.PublicKey)
		if !ok || key.Curve != elliptic.P256() {
			return nil, errNotP256
		}
		keys, text = append(keys, key), rest
	}
	return keys, nil
}

// errNotP256 is about other keys that cosign can import, for which its versions use different hashes.
var errNotP256 = errors.New("of PEM keys, only ECDSA keys with the curve P-256 are supported, as cosign makes them")

// form is the form of a key or a signature.
type form int

const (
	formOther    form = iota // OpenPGP without an armor, or a signature of cosign
	formArmor                // OpenPGP
	formPEM                  // a key of cosign
	formMinisign             // key or signature
)

func formOf(text []byte) form {
	text = bytes.TrimSpace(text)
	switch {
	case bytes.HasPrefix(text, []byte("untrusted comment:")):
		return formMinisign
	case bytes.HasPrefix(text, []byte("-----BEGIN PGP ")):
		return formArmor
	case bytes.HasPrefix(text, []byte("-----BEGIN ")):
		return formPEM
	}
	return formOther
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
