package storage

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/pinbox/pinbox/storage/signature"
)

const signedText = "f00d  store.squashfs\n"

func newEntity(t *testing.T) *openpgp.Entity {
	t.Helper()
	entity, err := openpgp.NewEntity("site", "", "site@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	return entity
}

// signedMessage is a message that gpg --sign would make, compressed so often.
func signedMessage(t *testing.T, by *openpgp.Entity, compressed int) []byte {
	t.Helper()
	var text bytes.Buffer
	w, err := openpgp.Sign(&text, by, nil, nil)
	if err == nil {
		_, err = w.Write([]byte(signedText))
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

// The IDs of the keys are those that gpg shows.
func TestDescribeMessage(t *testing.T) {
	secret := newEntity(t)
	id := secret.PrimaryKey.KeyIdString()
	for compressed := range 3 {
		keys, signed, err := describeMessage(signedMessage(t, secret, compressed))
		if err != nil || string(signed) != signedText || len(keys) != 1 || keys[0] != id {
			t.Errorf("compressed %d times: got %v, %q and %v, want the key %s and the message", compressed, keys, signed, err, id)
		}
	}
}

// What is no signature is an error, whatever it unpacks to.
func TestDescribeRefuses(t *testing.T) {
	for name, text := range map[string][]byte{
		"compressed three times": signedMessage(t, newEntity(t), 3),
		"JSON":                   []byte(`{"critical":{}}`),
		"nothing":                nil,
		"a packet, cut":          {0xc2, 0x20, 4},
		"large":                  []byte(strings.Repeat("\xc2", signature.MaxSize+1)),
	} {
		if got, _, err := describeMessage(text); !errors.Is(err, signature.ErrInvalid) {
			t.Errorf("%s: got %v and %v, want %v", name, got, err, signature.ErrInvalid)
		}
	}
}

// No signature makes the description fail in another way than by an error, or name a key in another form than an ID.
func FuzzDescribe(f *testing.F) {
	f.Add([]byte("\xc2\x20\x04"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, signed, _ := describeMessage(text)
		for _, id := range keys {
			if len(id) != 16 || strings.Trim(id, "0123456789ABCDEF") != "" {
				t.Errorf("got the key %q, want 16 hexadecimal digits", id)
			}
		}
		if len(signed) > signature.MaxSize {
			t.Errorf("got a message of %d bytes, want at most %d", len(signed), signature.MaxSize)
		}
	})
}
