package thin

import (
	"context"
	"crypto/sha256"
	"io"

	"github.com/opencontainers/go-digest"
)

// checkModel compares a content of a base, which is in a dictionary, with its record, once. A block that is made with
// a damaged one can be read with that base only, which verify has, too.
func (p *plan) checkModel(l *baseLayer, of source) error {
	if of.file == 0 || p.checked[of] {
		return nil
	}
	if p.checked == nil {
		p.checked = map[source]bool{}
	}
	p.checked[of] = true
	return l.check(of.file)
}

// verifyOnce is verify, unless the cache says that the same recipes and data were verified: they name the base
// layers by their digests.
func (m *Maker) verifyOnce(
	ctx context.Context, p *plan, x *index, recipes []byte, data io.ReaderAt, size int64,
) error {
	if m.Cache == nil {
		return m.verify(ctx, p, x, data, size)
	}
	sum := sha256.New()
	_, _ = io.WriteString(sum, encoderID+" verified ")
	sum.Write(recipes)
	if _, err := io.Copy(sum, io.NewSectionReader(data, 0, size)); err != nil {
		return err
	}
	key := digest.NewDigest(digest.SHA256, sum)
	if done, err := m.Cache.Get(key); err != nil || done != nil {
		return err
	}
	if err := m.verify(ctx, p, x, data, size); err != nil {
		return err
	}
	return m.Cache.Put(key, []byte("verified"))
}
