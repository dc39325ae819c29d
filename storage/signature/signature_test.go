package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/pinbox/pinbox/fixtures"
)

// tool returns a function that runs a program in a folder, and fails the test if that fails. Where the
// program is not installed the test is skipped.
func tool(t *testing.T, dir, name string) func(args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		fixtures.Skip(t, "%v; `make deps` installs it", err)
	}
	return func(args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GNUPGHOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
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

const message = "f00d  store.squashfs\n"

// sign signs the message with a key and writes it and the signature to a folder.
func sign(t *testing.T, dir, key, passphrase string) (signature []byte) {
	t.Helper()
	s, err := ReadSigner(key, []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	signature, err = s.Sign(strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "file"), []byte(message))
	write(t, filepath.Join(dir, "file"+s.Suffix()), signature)
	return signature
}

// wantVerified checks that keys accept the signature of the message, streamed in small pieces, and of
// nothing else.
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
		"without key": {Keys{}, message, ErrOtherKey},
	} {
		v, err := tt.keys.Verifier(signature)
		if err == nil {
			if _, err := io.Copy(v, struct{ io.Reader }{strings.NewReader(tt.message)}); err != nil {
				t.Fatal(err)
			}
			err = v.Finish()
			v.Stop()
		}
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

// minisign verifies what pinbox signs, and pinbox what minisign signs.
func TestMinisign(t *testing.T) {
	dir := t.TempDir()
	minisign := tool(t, dir, "minisign")
	minisign("-G", "-W", "-p", "minisign.pub", "-s", "minisign.key")
	keys := readKeys(t, filepath.Join(dir, "minisign.pub"))
	wantVerified(t, keys, sign(t, dir, filepath.Join(dir, "minisign.key"), ""))
	minisign("-V", "-m", "file")

	minisign("-S", "-s", "minisign.key", "-m", "file", "-x", "theirs")
	theirs, err := os.ReadFile(filepath.Join(dir, "theirs"))
	if err != nil {
		t.Fatal(err)
	}
	wantVerified(t, keys, theirs)
	minisign("-S", "-l", "-s", "minisign.key", "-m", "file", "-x", "legacy")
	legacy, err := os.ReadFile(filepath.Join(dir, "legacy"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Examine(legacy); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "prehashed") {
		t.Errorf("not prehashed: got %v, want an error that says so", err)
	}
}

// The key of minisign -G has a passphrase. Its scrypt takes 1 GiB for seconds, so there is one such test.
func TestMinisignPassphrase(t *testing.T) {
	dir := t.TempDir()
	tool(t, dir, "minisign")
	cmd := exec.Command("minisign", "-G", "-p", "minisign.pub", "-s", "minisign.key")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader("secret\nsecret\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	key := filepath.Join(dir, "minisign.key")
	wantVerified(t, readKeys(t, filepath.Join(dir, "minisign.pub")), sign(t, dir, key, "secret"))
	if _, err := ReadSigner(key, []byte("other")); !errors.Is(err, ErrPassphrase) {
		t.Errorf("got %v, want %v", err, ErrPassphrase)
	}
}

// gpg verifies what pinbox signs, and pinbox what gpg signs, if the hash is of SHA-2.
func TestGPG(t *testing.T) {
	for _, algorithm := range []string{"ed25519", "rsa2048"} {
		t.Run(algorithm, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil { // gpg warns of others
				t.Fatal(err)
			}
			gpg := tool(t, dir, "gpg")
			t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", dir, "--kill", "gpg-agent").Run() })
			secret := []string{"--batch", "--pinentry-mode", "loopback", "--passphrase", "secret"}
			gpg(append(secret, "--quick-generate-key", "site@example.com", algorithm, "sign")...)
			gpg(append(secret, "--output", "secret.gpg", "--export-secret-keys", "site@example.com")...)
			gpg("--output", "public.gpg", "--export", "site@example.com")
			gpg("--output", "public.asc", "--armor", "--export", "site@example.com")
			keys := readKeys(t, filepath.Join(dir, "public.gpg"))
			key := filepath.Join(dir, "secret.gpg")
			wantVerified(t, keys, sign(t, dir, key, "secret"))
			gpg("--verify", "file.asc", "file")
			if _, err := ReadSigner(key, []byte("other")); !errors.Is(err, ErrPassphrase) {
				t.Errorf("got %v, want %v", err, ErrPassphrase)
			}

			gpg(append(secret, "--detach-sign", "file")...)
			theirs, err := os.ReadFile(filepath.Join(dir, "file.sig"))
			if err != nil {
				t.Fatal(err)
			}
			wantVerified(t, keys, theirs)
			wantVerified(t, readKeys(t, filepath.Join(dir, "public.asc")), theirs)

			gpg(append(secret, "--digest-algo", "SHA1", "--output", "weak", "--detach-sign", "file")...)
			weak, err := os.ReadFile(filepath.Join(dir, "weak"))
			if err != nil {
				t.Fatal(err)
			}
			if err := keys.Examine(weak); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "want SHA-2") {
				t.Errorf("over SHA-1: got %v, want an error that wants SHA-2", err)
			}
		})
	}
}

// openssl verifies what pinbox signs with a key of cosign, as `cosign verify-blob --key` does, and the other
// way round.
func TestCosign(t *testing.T) {
	dir := t.TempDir()
	openssl := tool(t, dir, "openssl")
	openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "plain.pem")
	openssl("pkey", "-in", "plain.pem", "-pubout", "-out", "cosign.pub")
	openssl("pkcs8", "-topk8", "-nocrypt", "-in", "plain.pem", "-outform", "DER", "-out", "plain.der")
	der, err := os.ReadFile(filepath.Join(dir, "plain.der"))
	if err != nil {
		t.Fatal(err)
	}
	key := write(t, filepath.Join(dir, "cosign.key"), cosignKey(t, der))
	keys := readKeys(t, filepath.Join(dir, "cosign.pub"))
	wantVerified(t, keys, sign(t, dir, key, "secret"))
	openssl("base64", "-d", "-A", "-in", "file.sig", "-out", "file.der")
	openssl("dgst", "-sha256", "-verify", "cosign.pub", "-signature", "file.der", "file")

	openssl("dgst", "-sha256", "-sign", "plain.pem", "-out", "theirs.der", "file")
	openssl("base64", "-A", "-in", "theirs.der", "-out", "theirs")
	theirs, err := os.ReadFile(filepath.Join(dir, "theirs"))
	if err != nil {
		t.Fatal(err)
	}
	wantVerified(t, keys, theirs)
	if _, err := ReadSigner(key, nil); !errors.Is(err, ErrPassphrase) {
		t.Errorf("got %v, want %v", err, ErrPassphrase)
	}
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
	theirs, err := os.ReadFile(filepath.Join(dir, "file.sig"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(theirs, ours) {
		t.Error("got the signature of pinbox, want one of the library")
	}
	wantVerified(t, keys, theirs)
}

// cosignKey encrypts a key as cosign does.
func cosignKey(t *testing.T, der []byte) []byte {
	t.Helper()
	sealed, err := encrypted.Encrypt(der, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: sealed})
}

func TestKeysThatAreRefused(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(p384.Public())
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(p384)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"empty":     {"", "no key"},
		"text":      {"hello", "not a key"},
		"too big":   {strings.Repeat("x", maxKey+1), "1024 KiB"},
		"P-384":     {string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), "P-256"},
		"a secret":  {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), "PUBLIC KEY"},
		"minisign":  {"untrusted comment: x\nRWQ=\n", "minisign"},
		"in cosign": {"-----BEGIN PUBLIC KEY-----\n", "PUBLIC KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadKeys(write(t, filepath.Join(t.TempDir(), "key"), []byte(tt.text)))
			if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %v with %q", err, ErrKey, tt.want)
			}
		})
	}
	key := write(t, filepath.Join(t.TempDir(), "cosign.key"), cosignKey(t, secret))
	if _, err := ReadSigner(key, []byte("secret")); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "P-256") {
		t.Errorf("signing with P-384: got %v, want %v", err, ErrKey)
	}
	if _, err := ReadKeys(t.TempDir()); !errors.Is(err, ErrKey) {
		t.Errorf("a folder: got %v, want %v", err, ErrKey)
	}
}

// entity makes an OpenPGP key at a time.
func entity(t *testing.T, made time.Time) (secret *openpgp.Entity, keys Keys) {
	t.Helper()
	secret, err := openpgp.NewEntity("site", "", "site@example.com", &packet.Config{Time: func() time.Time { return made }})
	if err != nil {
		t.Fatal(err)
	}
	var public bytes.Buffer
	w, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{secret.Serialize(w), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	keys, err = parseKeys(public.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return secret, keys
}

func openPGPSignature(t *testing.T, by *openpgp.Entity, config *packet.Config) []byte {
	t.Helper()
	var signature bytes.Buffer
	if err := openpgp.DetachSign(&signature, by, strings.NewReader(message), config); err != nil {
		t.Fatal(err)
	}
	return signature.Bytes()
}

// A node whose clock was behind refused good signatures as expired.
func TestClockBehind(t *testing.T) {
	later := time.Now().AddDate(3, 0, 0)
	secret, keys := entity(t, later)
	wantVerified(t, keys, openPGPSignature(t, secret, &packet.Config{Time: func() time.Time { return later.Add(time.Hour) }}))
}

// A signature that has ended is refused by a clock that is right.
func TestExpiredSignature(t *testing.T) {
	then := time.Now().AddDate(-3, 0, 0)
	secret, keys := entity(t, then)
	signature := openPGPSignature(t, secret, &packet.Config{SigLifetimeSecs: 60, Time: func() time.Time { return then }})
	if err := keys.Verify(strings.NewReader(message), signature); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, want %v", err, ErrInvalid)
	}
}

// None of these makes Examine panic, or accept.
func TestSignaturesThatAreRefused(t *testing.T) {
	_, keys := entity(t, time.Now())
	other, _ := entity(t, time.Now())
	for name, tt := range map[string]struct {
		signature string
		want      error
	}{
		"nothing":       {"", ErrUnsigned},
		"too big":       {strings.Repeat("x", MaxSize+1), ErrInvalid},
		"text":          {"hello, world", ErrInvalid},
		"empty line":    {"\n", ErrOtherKey}, // an empty signature of cosign
		"another key":   {string(openPGPSignature(t, other, nil)), ErrOtherKey},
		"half a packet": {string(openPGPSignature(t, other, nil)[:40]), ErrInvalid},
		"armor":         {"-----BEGIN PGP SIGNATURE-----\n\nAAAA\n", ErrInvalid},
		"minisign":      {"untrusted comment: x\nRUQ=\ntrusted comment: y\nAA==\n", ErrInvalid},
		"zeros":         {strings.Repeat("\x80", 100), ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if err := keys.Examine([]byte(tt.signature)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// A folder of keys in all forms is one set of keys.
func TestReadKeysDir(t *testing.T) {
	dir := t.TempDir()
	if keys, err := ReadKeysDir(filepath.Join(dir, "none")); err != nil || !keys.IsEmpty() {
		t.Errorf("no folder: got %v, %v, want no keys", keys, err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(p256.Public())
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	write(t, filepath.Join(dir, "a.pub"), append(block, block...))
	write(t, filepath.Join(dir, "b.pub"), []byte("untrusted comment: minisign public key 3F9D0AC2E6E5D0A1\n"+
		"RWSh0OXmwgqdP7W8ZBBfJ6jWlcBTGqjHY8nTkqVbHZ7yPb5sqUOJjQ4c\n"))
	keys, err := ReadKeysDir(dir)
	if err != nil || len(keys.cosign) != 2 || len(keys.minisign) != 1 {
		t.Errorf("got %v, %v, want 2 keys of cosign and one of minisign", keys, err)
	}
	write(t, filepath.Join(dir, "c.pub"), nil)
	if _, err := ReadKeysDir(dir); !errors.Is(err, ErrKey) {
		t.Errorf("an empty file: got %v, want %v", err, ErrKey)
	}
}
