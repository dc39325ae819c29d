package stores

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// What can be wrong with the signature of a store.
var (
	ErrUnsigned  = errors.New("the store has no signature, and this node wants one")
	ErrSignature = errors.New("the signature of the store is not good")
)

// signatures are the names of a file's detached signature: what gpg(1) makes of
// --detach-sign, and with --armor.
func signatures(file string) []string { return []string{file + ".sig", file + ".asc"} }

// maxSignature bounds a signature, in bytes.
const maxSignature = 1 << 20

// readKeys reads the keys of all files in a folder, armoured or not. A node without
// keys looks at no signature.
func readKeys(dir string) (keys openpgp.EntityList, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		read := openpgp.ReadKeyRing
		if armoured(text) {
			read = openpgp.ReadArmoredKeyRing
		}
		more, err := read(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// hasKeys says whether there are any.
func hasKeys(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

func armoured(text []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN ")) }

// judge checks a signature of what is written to it.
type judge struct {
	*io.PipeWriter
	verdict chan error
}

// newJudge is nil if there is nothing to check a signature with.
func newJudge(keys openpgp.EntityList, signature []byte) (*judge, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if len(signature) == 0 {
		return nil, ErrUnsigned
	}
	check := openpgp.CheckDetachedSignature
	if armoured(signature) {
		check = openpgp.CheckArmoredDetachedSignature
	}
	in, out := io.Pipe()
	j := &judge{PipeWriter: out, verdict: make(chan error, 1)}
	go func() {
		_, err := check(keys, in, bytes.NewReader(signature), &packet.Config{})
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrSignature, err)
		}
		j.verdict <- err
		_, _ = io.Copy(io.Discard, in) // it may have known before the end
	}()
	return j, nil
}

// stop ends it early.
func (j *judge) stop() {
	if j != nil {
		_ = j.CloseWithError(io.ErrUnexpectedEOF)
	}
}

// end says what came of it, once all was written.
func (j *judge) end() error {
	if j == nil {
		return nil
	}
	_ = j.Close() // that of a pipe does not fail
	return <-j.verdict
}
