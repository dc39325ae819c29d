package artifact

import (
	"bytes"
	"context"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
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
func (s *Stage) SignWith(ctx context.Context, signer signature.Signer, store Store, hooks progress.Hooks) (err error) {
	s.signing.signer = signer
	if !signer.IsZero() && store.Sum != "" {
		s.signing.store, err = signFile(ctx, s.Path(store.Name), signer, hooks)
	}
	return err
}

func signFile(ctx context.Context, name string, signer signature.Signer, hooks progress.Hooks) ([]byte, error) {
	f, err := input.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	hooks.Begin("sign "+filepath.Base(name), fi.Size())
	return signer.Sign(reader{ctx, f, hooks.Done})
}

// sums returns the signature of a file of sums; nil if it gets none.
func (s signing) sums(text []byte) ([]byte, error) {
	if s.signer.IsZero() {
		return nil, nil
	}
	return s.signer.Sign(bytes.NewReader(text))
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
		suffix := layout.SignatureSuffix // of one that was taken over
		if !s.signer.IsZero() {
			suffix = s.signer.Suffix()
		}
		if _, err := atomicfile.Write(filepath.Join(dir, name+suffix), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
