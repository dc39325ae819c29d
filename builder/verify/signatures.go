package verify

import (
	"bytes"
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
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/iso9660"
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
		return fmt.Errorf("%w: %w", artifact.ErrNotAppliance, err)
	}
	proof, err := c.keys.ReadBeside(filepath.Join(dir, artifact.SumsFile), nil)
	if err == nil {
		err = c.check(artifact.SumsFile, bytes.NewReader(text), int64(len(text)), proof)
	}
	if err != nil {
		return err
	}
	sums, err := artifact.ParseSums(text, dir, artifact.SumsFile)
	if err != nil {
		return err
	}
	_, store := format.Find(sums)
	proof, err = c.keys.ReadBeside(filepath.Join(dir, store), nil)
	if proof == nil || store == "" {
		return err
	}
	f, err := openStore(dir, store)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.check(store, f, f.Size, proof)
}

func (c *signatures) iso(name string) error {
	image, f, err := iso.OpenFile(name)
	if err != nil {
		return fmt.Errorf("%w: %w", artifact.ErrNotAppliance, err)
	}
	defer f.Close()
	for _, file := range []struct{ name, signature string }{
		{artifact.ISOSums, artifact.ISOSumsSignature}, {artifact.ISOStore, artifact.ISOSignature},
	} {
		signed, err := image.Find(path.Join(iso.Dir, file.name))
		if errors.Is(err, iso9660.ErrNotFound) && file.name == artifact.ISOStore { // it is on a second medium
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %w", artifact.ErrNotAppliance, err)
		}
		proof, err := image.ReadText(path.Join(iso.Dir, file.signature))
		if errors.Is(err, iso9660.ErrNotFound) {
			if file.name == artifact.ISOStore {
				continue
			}
			err = nil
		}
		if err == nil {
			err = c.check(file.name, signed.Reader(), signed.Size, proof)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check checks the signature of one file of so many bytes.
func (c *signatures) check(name string, signed io.Reader, size int64, proof []byte) error {
	c.hooks.Begin("verify the signature of "+name, size)
	v, err := c.keys.Verifier(proof)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer v.Stop()
	if _, _, err := artifact.SumReader(c.ctx, io.TeeReader(signed, v), c.hooks); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := v.Finish(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.good = append(c.good, name)
	return nil
}
