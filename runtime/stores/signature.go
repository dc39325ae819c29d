package stores

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinbox/pinbox/storage/signature"
)

// Why a signature does not permit an attach.
var (
	ErrUnsigned  = errors.New("the store has no signature, and this node requires one")
	ErrSignature = errors.New("the signature of the store is not valid")
)

// readSignature reads the detached signature next to a file; nil if there is none.
func readSignature(keys signature.Keys, file string) ([]byte, error) {
	text, err := keys.ReadBeside(file, func(name string) ([]byte, error) {
		f, size, err := openFile(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(patient(f, size), signature.MaxSize+1))
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return text, err
}

// requiresSignatures reports whether the folder has keys, or cannot be read.
func requiresSignatures(dir string) bool {
	entries, err := os.ReadDir(dir)
	return len(entries) > 0 || ignoreNotExist(err) != nil
}

// newVerifier makes a verifier with the keys of the node. It is nil if there are none.
func newVerifier(keys signature.Keys, text []byte) (*signature.Verifier, error) {
	if keys.IsEmpty() {
		return nil, nil
	}
	v, err := keys.Verifier(text)
	switch {
	case errors.Is(err, signature.ErrUnsigned):
		return nil, ErrUnsigned
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return v, nil
}
