package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/pinbox/pinbox/fixtures"
)

// openssl returns a function that runs openssl in a folder, and fails the test if that fails.
func openssl(t *testing.T, dir string) func(args ...string) {
	return func(args ...string) {
		t.Helper()
		cmd := exec.Command(fixtures.Need(t, "openssl"), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const message = "f00d  store.squashfs\n"

// sign signs the message with a key and writes it and the signature to a folder.
func sign(t *testing.T, dir, key, passphrase string) (signature []byte) {
	t.Helper()
	s, err := ReadSigner(key, []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	signature, err = s.Sign([]byte(message))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "file"), []byte(message))
	write(t, filepath.Join(dir, "file.sig"), signature)
	return signature
}

// wantVerified checks that keys accept the signature of the message, and of nothing else.
func wantVerified(t *testing.T, keys Keys, signature []byte) {
	t.Helper()
	for name, tt := range map[string]struct {
		keys    Keys
		message string
		want    error
	}{
		"as signed":   {keys, message, nil},
		"changed":     {keys, message + "\n", ErrInvalid},
		"empty":       {keys, "", ErrInvalid},
		"without key": {Keys{}, message, ErrInvalid},
	} {
		err := tt.keys.Verify([]byte(tt.message), signature)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

func readKeys(t *testing.T, name string) Keys {
	t.Helper()
	keys, err := ReadKeys(name)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// openssl verifies what pinbox signs, and pinbox what openssl signs, with keys that openssl made.
func TestOpenSSL(t *testing.T) {
	for name, tt := range map[string]struct{ generate, sign, verify []string }{
		"ECDSA": {
			[]string{"-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"},
			[]string{"dgst", "-sha256", "-sign", "site.key", "-out", "theirs.der", "file"},
			[]string{"dgst", "-sha256", "-verify", "site.pub", "-signature", "file.der", "file"},
		},
		"Ed25519": {
			[]string{"-algorithm", "ED25519"},
			[]string{"pkeyutl", "-sign", "-rawin", "-inkey", "site.key", "-in", "file", "-out", "theirs.der"},
			[]string{"pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "site.pub", "-sigfile", "file.der", "-in", "file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			openssl := openssl(t, dir)
			openssl(append([]string{"genpkey", "-out", "site.key"}, tt.generate...)...)
			openssl("pkey", "-in", "site.key", "-pubout", "-out", "site.pub")
			keys := readKeys(t, filepath.Join(dir, "site.pub"))
			wantVerified(t, keys, sign(t, dir, filepath.Join(dir, "site.key"), ""))
			openssl("base64", "-d", "-A", "-in", "file.sig", "-out", "file.der")
			openssl(tt.verify...)

			openssl(tt.sign...)
			openssl("base64", "-A", "-in", "theirs.der", "-out", "theirs")
			wantVerified(t, keys, read(t, filepath.Join(dir, "theirs")))
		})
	}
}

// Versions of cosign sign with a key of Ed25519 in another way than openssl: by Ed25519ph.
func TestEd25519ph(t *testing.T) {
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512([]byte(message))
	signature, err := secret.Sign(rand.Reader, sum[:], crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	wantVerified(t, Keys{public}, base64.StdEncoding.AppendEncode(nil, signature))
}

// The library by which cosign makes and verifies signatures takes those of pinbox, and the other way round, with a key
// that it made.
func TestLibraryOfCosign(t *testing.T) {
	dir := t.TempDir()
	peer := fixtures.Peer(t, "sigstore")
	library := func(args ...string) (string, error) {
		cmd := exec.Command(peer, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "COSIGN_PASSWORD=secret")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) {
		t.Helper()
		if out, err := library(args...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	must("generate")
	ours := sign(t, dir, filepath.Join(dir, "cosign.key"), "secret")
	keys := readKeys(t, filepath.Join(dir, "cosign.pub"))
	wantVerified(t, keys, ours)
	must("verify", "file")
	write(t, filepath.Join(dir, "other"), []byte(message+"x"))
	write(t, filepath.Join(dir, "other.sig"), ours)
	if out, err := library("verify", "other"); err == nil || !strings.Contains(out, "invalid signature") {
		t.Errorf("another file: got %v, %s, want that the signature is invalid", err, out)
	}
	must("sign", "file")
	theirs := read(t, filepath.Join(dir, "file.sig"))
	if bytes.Equal(theirs, ours) {
		t.Error("got the signature of pinbox, want one of the library")
	}
	wantVerified(t, keys, theirs)
}

// secretKey encodes a key as openssl does, or with a passphrase as cosign does.
func secretKey(t *testing.T, key any, passphrase string) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	block := pem.Block{Type: "PRIVATE KEY", Bytes: der}
	if err == nil && passphrase != "" {
		block.Type = "ENCRYPTED SIGSTORE PRIVATE KEY"
		block.Bytes, err = encrypted.Encrypt(der, []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&block)
}

func publicKey(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A key of cosign has a passphrase.
func TestPassphrase(t *testing.T) {
	secret := newKey(t, elliptic.P256())
	dir := t.TempDir()
	key := write(t, filepath.Join(dir, "cosign.key"), secretKey(t, secret, "secret"))
	wantVerified(t, Keys{secret.Public()}, sign(t, dir, key, "secret"))
	for _, passphrase := range []string{"", "other"} {
		if _, err := ReadSigner(key, []byte(passphrase)); !errors.Is(err, ErrPassphrase) {
			t.Errorf("passphrase %q: got %v, want %v", passphrase, err, ErrPassphrase)
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	p384 := newKey(t, elliptic.P384())
	for name, tt := range map[string]struct{ text, want string }{
		"empty":     {"", "no key"},
		"text":      {"hello", "not a key"},
		"too big":   {strings.Repeat("x", maxKey+1), "1024 KiB"},
		"P-384":     {string(publicKey(t, p384.Public())), "P-256"},
		"a secret":  {string(secretKey(t, p384, "")), "PUBLIC KEY"},
		"cut":       {"-----BEGIN PUBLIC KEY-----\n", "PUBLIC KEY"},
		"and text":  {string(publicKey(t, newKey(t, elliptic.P256()).Public())) + "a", "PUBLIC KEY"},
		"of nobody": {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not a key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadKeys(write(t, filepath.Join(t.TempDir(), "key"), []byte(tt.text)))
			if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %v with %q", err, ErrKey, tt.want)
			}
		})
	}
	for name, text := range map[string][]byte{
		"P-384": secretKey(t, p384, ""), "P-384 of cosign": secretKey(t, p384, "secret"),
		"public": publicKey(t, p384.Public()), "text": []byte("hello"),
	} {
		key := write(t, filepath.Join(t.TempDir(), "key"), text)
		if _, err := ReadSigner(key, []byte("secret")); !errors.Is(err, ErrKey) {
			t.Errorf("signing with %s: got %v, want %v", name, err, ErrKey)
		}
	}
	if _, err := ReadKeys(t.TempDir()); !errors.Is(err, ErrKey) {
		t.Errorf("a folder: got %v, want %v", err, ErrKey)
	}
}

// None of these is accepted.
func TestSignaturesThatAreRefused(t *testing.T) {
	ec, dir := newKey(t, elliptic.P256()), t.TempDir()
	ed, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other := sign(t, dir, write(t, filepath.Join(dir, "key"), secretKey(t, newKey(t, elliptic.P256()), "")), "")
	for name, tt := range map[string]struct {
		signature string
		want      error
	}{
		"nothing":     {"", ErrUnsigned},
		"too big":     {strings.Repeat("x", MaxSize+1), ErrInvalid},
		"text":        {"hello, world", ErrInvalid},
		"empty line":  {"\n", ErrInvalid},
		"another key": {string(other), ErrInvalid},
		"half":        {string(other[:40]), ErrInvalid},
		"zeros":       {strings.Repeat("A", 88), ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if err := (Keys{ec.Public(), ed}).Verify([]byte(message), []byte(tt.signature)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// A folder of keys is one set of keys.
func TestReadKeysDir(t *testing.T) {
	dir := t.TempDir()
	if keys, err := ReadKeysDir(filepath.Join(dir, "none")); err != nil || !keys.IsEmpty() {
		t.Errorf("no folder: got %v, %v, want no keys", keys, err)
	}
	block := publicKey(t, newKey(t, elliptic.P256()).Public())
	ed, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.pub"), append(block, block...))
	write(t, filepath.Join(dir, "b.pub"), publicKey(t, ed))
	if keys, err := ReadKeysDir(dir); err != nil || len(keys) != 3 {
		t.Errorf("got %v, %v, want 3 keys", keys, err)
	}
	write(t, filepath.Join(dir, "c.pub"), nil)
	if _, err := ReadKeysDir(dir); !errors.Is(err, ErrKey) {
		t.Errorf("an empty file: got %v, want %v", err, ErrKey)
	}
}
