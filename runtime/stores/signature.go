package stores

import (
	"io"
	"io/fs"
	"os"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Why a signature does not permit an attach.
var (
	ErrUnsigned = fault.New(fault.Damaged, "the store has no signature, and this node requires one",
		"copy its .sig file next to it; --sign-key of pinbox writes it")
	ErrNoKeys = fault.New(fault.Damaged, "this node requires signatures, and has no keys to verify one",
		"put the public keys of who builds its stores there; `signed` in node.json requires them")
	ErrSignature = fault.New(fault.Damaged, "the signature of the store is not valid",
		"find out who made the store; /etc/pinbox/keys.d has the keys that this node trusts")
)

// readSignature reads the detached signature next to a file; nil if there is none.
func readSignature(file string) ([]byte, error) {
	text, err := signature.ReadBeside(file, func(name string) ([]byte, error) {
		f, size, err := openFile(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(patient(f, size), signature.MaxSize+1))
	})
	if err != nil {
		err = fault.Wrap(ErrSignature, err)
	}
	return text, err
}

// requiresSignatures reports whether the folder has keys, or cannot be read.
func requiresSignatures(dir string) bool {
	entries, err := os.ReadDir(dir)
	return len(entries) > 0 || fault.Ignore(err, fs.ErrNotExist) != nil
}

// checkSignature checks the signature of the store with this digest, if the node has keys. For "" it checks only that
// there is one.
func (s source) checkSignature(id digest.Digest) error {
	switch {
	case s.keys.IsEmpty():
		return nil
	case len(s.signature) == 0:
		return ErrUnsigned
	case id == "":
		return nil
	}
	if err := s.keys.Verify(layout.StoreSums(id.Encoded()), s.signature); err != nil {
		return fault.Wrap(ErrSignature, err)
	}
	return nil
}
