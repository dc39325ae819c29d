package main

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/fault"
)

// With GODEBUG=fips140=only, the cryptography of Go outside of its FIPS 140-3 module is an error or a panic. All that
// pinbox does with its own keys and sums goes on; the encryption of a cosign.key is refused.
func TestFIPS(t *testing.T) {
	t.Parallel()
	secret, public := fixtures.Key(t)
	dir, bin := t.TempDir(), t.TempDir()
	fixtures.Run(t, "cp", fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), bin)
	fixtures.Run(t, "cp", nodeProgram, filepath.Join(bin, "pinbox-node")) // which demo takes
	fixtures.Run(t, "openssl", "genpkey", "-algorithm", "ed25519", "-out", filepath.Join(dir, "ed.key"))
	fixtures.Run(t, "openssl", "pkey", "-in", filepath.Join(dir, "ed.key"), "-pubout", "-out", filepath.Join(dir, "ed.pub"))
	sealed, iso, passphrase := sealedKey(t, "right"), liveISOWithKernel(t), write(t, "passphrase", []byte("right\n"))
	node := []string{"--node-binary", nodeProgram, "--progress", "none"}
	for _, step := range []struct {
		args []string
		want string // "" if it succeeds
	}{
		{[]string{"demo", "-o", "demo"}, ""},
		{append([]string{"build", "--oci", "demo/images", "-o", "a", "--sign-key", secret}, node...), ""},
		{[]string{"verify", "a", "--key", public}, ""},
		{append([]string{"delta", "--oci", "demo/next", "--from", "a", "-o", "b", "--sign-key", "ed.key"}, node...), ""},
		{[]string{"verify", "b", "--base", "a", "--key", "ed.pub"}, ""},
		{append([]string{"delta", "--oci", "demo/next", "--from", "a", "--thin", "-o", "c"}, node...), ""},
		{[]string{"inspect", "c"}, ""},
		{[]string{"medium", "b", "-o", "b.iso", "--sign-key", "ed.key"}, ""},
		{[]string{"verify", "b.iso", "--base", "a", "--key", "ed.pub"}, ""},
		{[]string{"medium", "c", "-o", "c.iso"}, ""},
		{[]string{"verify", "c.iso", "--base", "a"}, ""},
		{append([]string{"build", "--oci", "demo/images", "--iso", iso, "-o", "d"}, node...), ""},
		{[]string{"verify", "d"}, ""},
		{append([]string{"build", "--oci", "demo/images", "-o", "e", "--sign-key", sealed}, node...),
			"the encryption of cosign.key is not in the FIPS 140-3 module"},
	} {
		cmd := exec.Command(filepath.Join(bin, "pinbox"), step.args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GODEBUG=fips140=only", "PINBOX_SIGN_PASSPHRASE_FILE="+passphrase)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (step.want == "") || !strings.Contains(string(out), step.want) || strings.Contains(string(out), "panic") {
			t.Errorf("%v: got %v, want %q\n%s", step.args, err, step.want, out)
		}
	}
}

// The passphrase of a key is the content of a file that a flag names, or else a variable, or the value of another one.
func TestPassphraseOfAKey(t *testing.T) {
	secret := sealedKey(t, "right")
	right, wrong := write(t, "right", []byte("right\n")), write(t, "wrong", []byte("wrong"))
	const missing = "the passphrase of the key is missing or wrong"
	for name, c := range map[string]struct{ flag, file, value, want string }{ // want is "" if the build goes on
		"then the value":      {"", "", "right", ""},
		"the flag goes first": {right, wrong, "wrong", ""},
		"then the file":       {"", right, "wrong", ""},
		"a wrong flag":        {wrong, right, "right", missing},
		"a wrong file":        {"", wrong, "right", missing},
		"a missing file":      {"", filepath.Join(t.TempDir(), "none"), "right", "no such file"},
		"none":                {"", "", "", missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PINBOX_SIGN_PASSPHRASE_FILE", c.file)
			t.Setenv("PINBOX_SIGN_PASSPHRASE", c.value)
			code, stdout, stderr := pinbox(t.Context(), "build", "--oci", "no-images", "-o", filepath.Join(t.TempDir(), "out"),
				"--node-binary", nodeProgram, "--sign-key", secret, "--sign-passphrase-file="+c.flag)
			if code != fault.Input || !strings.Contains(stderr, cmp.Or(c.want, "no-images")) {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", code, fault.Input, c.want, stdout, stderr)
			}
		})
	}
}

// sealedKey writes a key as `cosign generate-key-pair` does, with a passphrase.
func sealedKey(t *testing.T, passphrase string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err == nil {
		der, err = encrypted.Encrypt(der, []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "cosign.key", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: der}))
}
