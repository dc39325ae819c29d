package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Signatures checks the signatures of a folder or an ISO: that of the sums, which covers all files once Artifact
// has compared them, and that of the store if there is one. It parses nothing before its signature is good.
// It returns the names of the files with good signatures.
func Signatures(ctx context.Context, name string, keys signature.Keys, hooks progress.Hooks) ([]string, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	c := signatures{ctx: ctx, keys: keys, hooks: hooks}
	if fi.IsDir() {
		err = c.folder(name)
	} else {
		err = c.iso(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c.good, nil
}

type signatures struct {
	ctx   context.Context
	keys  signature.Keys
	hooks progress.Hooks
	good  []string
}

func (c *signatures) folder(dir string) error {
	text, err := input.Read(filepath.Join(dir, artifact.SumsFile))
	if err != nil {
		return fault.Wrap(artifact.ErrNotAppliance, err)
	}
	proof, err := signature.ReadBeside(filepath.Join(dir, artifact.SumsFile), nil)
	if err == nil {
		err = c.check(artifact.SumsFile, text, proof)
	}
	if err != nil {
		return err
	}
	sums, err := artifact.ParseSums(text, dir, artifact.SumsFile)
	if err != nil {
		return err
	}
	_, store := format.Find(sums)
	proof, err = signature.ReadBeside(filepath.Join(dir, store), nil)
	if proof == nil || store == "" {
		return err
	}
	f, err := openStore(dir, store)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.checkStore(store, f, f.Size, proof)
}

func (c *signatures) iso(name string) error {
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return fault.Wrap(artifact.ErrNotAppliance, err)
	}
	defer f.Close()
	text, err := image.ReadText(path.Join(iso.Dir, artifact.ISOSums))
	if err != nil {
		return fault.Wrap(artifact.ErrNotAppliance, err)
	}
	proof, err := image.ReadText(path.Join(iso.Dir, artifact.ISOSumsSignature))
	if err == nil || errors.Is(err, iso9660.ErrNotFound) {
		err = c.check(artifact.ISOSums, text, proof)
	}
	if err != nil {
		return err
	}
	store, err := image.Find(path.Join(iso.Dir, artifact.ISOStore))
	if errors.Is(err, iso9660.ErrNotFound) { // it is on a second medium
		return nil
	}
	if err != nil {
		return fault.Wrap(artifact.ErrNotAppliance, err)
	}
	proof, err = image.ReadText(path.Join(iso.Dir, artifact.ISOSignature))
	if errors.Is(err, iso9660.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.checkStore(artifact.ISOStore, store.Reader(), store.Size, proof)
}

// checkStore checks the signature of a store of so many bytes.
func (c *signatures) checkStore(name string, store io.Reader, size int64, proof []byte) error {
	c.hooks.Begin("verify the signature of "+name, size)
	sum, _, err := artifact.SumReader(c.ctx, store, c.hooks)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return c.check(name, layout.StoreSums(sum), proof)
}

// check checks the signature of a file, which is over a text.
func (c *signatures) check(name string, text, proof []byte) error {
	if err := c.keys.Verify(text, proof); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.good = append(c.good, name)
	return nil
}
