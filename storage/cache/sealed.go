package cache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// sealedPrefix begins the encodings of sealed entries.
const sealedPrefix = "sealed-"

// Sealed returns a key of a small entry that ends with its own digest: a list of a layer's contents, or a patch.
// The digests say what it was made of.
func Sealed(k Key) Key {
	k.Encoding = sealedPrefix + k.Encoding
	return k
}

// seal is the digest at the end of a sealed entry. With the key in it, an entry that was copied over another one is
// found, too.
func (k Key) seal(content []byte) []byte {
	sum := sha256.New()
	io.WriteString(sum, k.Encoding+"\n"+k.Digest.String()+"\n"+k.Blob.String()+"\n") // never fails
	sum.Write(content)
	return sum.Sum(nil)
}

// unseal returns the content of an entry, and whether it is the one that was written.
func (k Key) unseal(entry []byte) ([]byte, bool) {
	at := len(entry) - sha256.Size
	if at < 0 || !bytes.Equal(k.seal(entry[:at]), entry[at:]) {
		return nil, false
	}
	return entry[:at], true
}

// GetSealed returns the content of a sealed entry, if there is one that is not damaged.
func (c Cache) GetSealed(k Key) ([]byte, bool) {
	f, ok := c.Get(k)
	if !ok {
		return nil, false
	}
	defer f.Close()
	entry, err := io.ReadAll(f)
	if err != nil {
		return nil, false
	}
	return k.unseal(entry)
}

// PutSealed makes a sealed entry. It does not wait for the disk: there are thousands, and one that a power cut
// damages is made again. The zero Cache keeps nothing.
func (c Cache) PutSealed(k Key, content []byte) error {
	if c.dir == "" {
		return nil
	}
	path := c.path(k)
	err := os.Mkdir(filepath.Dir(path), 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(content[:len(content):len(content)], k.seal(content)...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = syscall.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// isSealed reports whether an entry is one of PutSealed.
func (k Key) isSealed() bool { return strings.HasPrefix(k.Encoding, sealedPrefix) }

// checkSealed reads a sealed entry, and reports whether it is damaged.
func (c Cache) checkSealed(k Key) (damaged bool) {
	entry, err := os.ReadFile(c.path(k))
	if err != nil {
		return false // another process has removed it
	}
	_, ok := k.unseal(entry)
	return !ok
}
