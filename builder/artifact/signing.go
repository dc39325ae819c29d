package artifact

import (
	"path/filepath"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// signing makes the signatures of a folder or of a medium. The zero value makes none.
type signing struct {
	signer signature.Signer
	// store is the signature of the store; nil if it has none.
	store []byte
}

// SignWith sets the signer of the sums, and signs the store unless it is a folder. It comes before WriteISO,
// since the ISO gets the signatures too.
func (s *Stage) SignWith(signer signature.Signer, store Store) (err error) {
	s.signing.signer = signer
	if !signer.IsZero() && store.Sum != "" {
		s.signing.store, err = signer.Sign(layout.StoreSums(store.Sum))
	}
	return err
}

// sums returns the signature of a file of sums; nil if it gets none.
func (s signing) sums(text []byte) ([]byte, error) {
	if s.signer.IsZero() {
		return nil, nil
	}
	return s.signer.Sign(text)
}

// write writes the signatures next to the files of a folder.
func (s signing) write(dir, store string, sums []byte) error {
	signature, err := s.sums(sums)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{store: s.store, SumsFile: signature} {
		if content == nil {
			continue
		}
		if _, err := atomicfile.Write(filepath.Join(dir, name+layout.SignatureSuffix), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
