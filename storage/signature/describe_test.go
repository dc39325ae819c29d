package signature

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/go-cmp/cmp"
)

// signedMessage is a message that gpg --sign would make, compressed so often.
func signedMessage(t *testing.T, by *openpgp.Entity, compressed int) []byte {
	t.Helper()
	var text bytes.Buffer
	w, err := openpgp.Sign(&text, by, nil, nil)
	if err == nil {
		_, err = w.Write([]byte(message))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	for range compressed {
		var outer bytes.Buffer
		w, err := packet.SerializeCompressed(nopCloser{&outer}, packet.CompressionZLIB, nil)
		if err == nil {
			_, err = w.Write(text.Bytes())
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		text = outer
	}
	return text.Bytes()
}

type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }

// The IDs of the keys are those that minisign and gpg show, and a signature of cosign has none.
func TestDescribe(t *testing.T) {
	dir := t.TempDir()
	tool(t, dir, "minisign")("-G", "-W", "-p", "minisign.pub", "-s", "minisign.key")
	public, err := minisign.PublicKeyFromFile(filepath.Join(dir, "minisign.pub"))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := entity(t, time.Now())
	binary := openPGPSignature(t, secret, nil)
	var armored bytes.Buffer
	w, err := armor.Encode(&armored, openpgp.SignatureType, nil)
	if err == nil {
		_, err = w.Write(binary)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	id := secret.PrimaryKey.KeyIdString()
	if key, ok := secret.SigningKey(time.Now()); ok {
		id = key.PublicKey.KeyIdString()
	}
	for name, c := range map[string]struct {
		signature []byte
		want      Description
	}{
		"minisign": {
			sign(t, dir, filepath.Join(dir, "minisign.key"), ""), Description{"minisign", []string{fmt.Sprintf("%016X", public.ID())}},
		},
		"OpenPGP":         {binary, Description{"OpenPGP", []string{id}}},
		"OpenPGP, armor":  {armored.Bytes(), Description{"OpenPGP", []string{id}}},
		"cosign":          {[]byte("MEUCIQ==\n"), Description{Form: "cosign"}},
		"OpenPGP, by two": {append(binary, openPGPSignature(t, secret, nil)...), Description{"OpenPGP", []string{id}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Describe(c.signature)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("got %v, want -, got +:\n%s", err, diff)
			}
		})
	}
	for compressed := range 3 {
		got, signed, err := DescribeMessage(signedMessage(t, secret, compressed))
		if err != nil || string(signed) != message || len(got.Keys) != 1 || got.Keys[0] != id {
			t.Errorf("compressed %d times: got %v, %q and %v, want the key %s and the message", compressed, got, signed, err, id)
		}
	}
}

// What is no signature is an error, whatever it unpacks to.
func TestDescribeRefuses(t *testing.T) {
	secret, _ := entity(t, time.Now())
	for name, text := range map[string][]byte{
		"nothing that is known": []byte("signed, sealed, delivered"),
		"minisign, cut":         []byte("untrusted comment: x\nRUQ"),
		"an armor of nothing":   []byte("-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----\n"),
		"a packet, cut":         {0xc2, 0x20, 4},
		"large":                 bytes.Repeat([]byte("a"), MaxSize+1),
	} {
		if got, err := Describe(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v and %v, want %v", name, got, err, ErrInvalid)
		}
	}
	for name, text := range map[string][]byte{
		"compressed three times": signedMessage(t, secret, 3),
		"JSON":                   []byte(`{"critical":{}}`),
		"nothing":                nil,
		"large":                  []byte(strings.Repeat("\xc2", MaxSize+1)),
	} {
		if got, _, err := DescribeMessage(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v and %v, want %v", name, got, err, ErrInvalid)
		}
	}
}

// No signature makes the description fail in another way than by an error, or name a key in another form than an ID.
func FuzzDescribe(f *testing.F) {
	f.Add([]byte("untrusted comment: x\nRUQ"))
	f.Add([]byte("\xc2\x20\x04"))
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----\n\n\n-----END PGP SIGNATURE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, _ := Describe(text)
		message, signed, _ := DescribeMessage(text)
		for _, id := range append(d.Keys, message.Keys...) {
			if len(id) != 16 || strings.Trim(id, "0123456789ABCDEF") != "" {
				t.Errorf("got the key %q, want 16 hexadecimal digits", id)
			}
		}
		if len(signed) > MaxSize {
			t.Errorf("got a message of %d bytes, want at most %d", len(signed), MaxSize)
		}
	})
}
