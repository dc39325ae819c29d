package artifact

import (
	"bytes"
	"context"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
)

// LiveISO says how to make the live ISO of an appliance.
type LiveISO struct {
	// Base is the base ISO; nil for no live ISO. BaseSum is its SHA-256 in hexadecimal.
	Base    *iso.Base
	BaseSum string
	// Edit lists the changes to the base. Its additions are set from the folder.
	Edit iso.Edit
	// NoStore omits the store, which the node then expects on a second medium.
	NoStore bool
}

// WriteISO makes the live ISO from its base, the files in the stage, and a provenance statement.
func (s *Stage) WriteISO(
	ctx context.Context, store Store, live LiveISO, statement []byte, hooks progress.Hooks,
) error {
	inside := layout.Sums{
		IgnitionFile:          hexSum(live.Edit.Ignition),
		layout.MediumBase:     live.BaseSum,
		layout.ProvenanceFile: hexSum(statement),
	}
	files := map[string]string{
		layout.MediumStore:    layout.StoreFile,
		layout.MediumLock:     layout.LockFile,
		layout.MediumRootHash: layout.RootHashFile(layout.StoreFile),
	}
	small := []string{layout.MediumLock}
	if !live.NoStore {
		inside[layout.MediumStore] = store.Sum
		small = append(small, layout.MediumRootHash)
	}
	for _, name := range small {
		sum, err := sumOf(ctx, s.Path(files[name]), progress.Hooks{})
		if err != nil {
			return err
		}
		inside[name] = sum
	}
	signing := s.signing
	if live.NoStore {
		signing.store = nil
	}
	additions, closeAll, err := additions(s.Dir, files, statement, inside, signing)
	if err != nil {
		return err
	}
	defer closeAll()
	hooks.Begin("write "+ISOFile, live.Base.Size+total(additions))
	edit := live.Edit
	edit.Additions, edit.Written = additions, hooks.Done
	return live.Base.Apply(ctx, s.Path(ISOFile), edit)
}

// additions opens the files that are added to an ISO: the files that the sums list, the sums, and the
// signatures. files maps names in the ISO to names in the folder; statement is the provenance. The caller calls
// closeAll.
func additions(
	dir string, files map[string]string, statement []byte, sums layout.Sums, signing signing,
) (all []iso.Addition, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			_ = f.Close() // it was only read
		}
	}
	text := func(name string, content []byte) {
		if content != nil {
			all = append(all, iso.Addition{Name: name, Size: int64(len(content)), Content: bytes.NewReader(content)})
		}
	}
	if signing.store != nil {
		sums[layout.MediumSignature] = hexSum(signing.store)
	}
	signature, err := signing.sums(sums.Encode())
	if err != nil {
		return nil, nil, err
	}
	text(layout.MediumSums, sums.Encode())
	text(layout.MediumSumsSignature, signature)
	text(layout.MediumSignature, signing.store)
	for _, name := range []string{layout.MediumLock, layout.ProvenanceFile, layout.MediumRootHash, layout.MediumStore} {
		if _, ok := sums[name]; !ok {
			continue
		}
		if name == layout.ProvenanceFile {
			text(name, statement)
			continue
		}
		f, err := input.Open(filepath.Join(dir, files[name]))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		opened = append(opened, f)
		fi, err := f.Stat()
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, iso.Addition{Name: name, Size: fi.Size(), Content: f})
	}
	return all, closeAll, nil
}

func total(additions []iso.Addition) (bytes int64) {
	for _, a := range additions {
		bytes += a.Size
	}
	return bytes
}
