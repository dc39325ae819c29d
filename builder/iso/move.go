package iso

import (
	"bytes"
	"fmt"
	"path"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// movedFile is a file of the base, in a folder of the root, that gets a larger content behind the end of the base;
// none if it has no name. Boot loaders and coreos-installer find it by its records.
type movedFile struct {
	name    string
	content []byte
}

// move returns the changes for the new place of a file, at a sector: its records in all trees.
func (ed editor) move(f movedFile, at int64) (patches []patch, err error) {
	size := uint32(len(f.content))
	for _, v := range ed.Volumes() {
		offset, err := ed.recordOffset(v, f.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		patches = append(patches, patch{offset + 2, both32(uint32(at))}, patch{offset + 10, both32(size)})
	}
	return patches, nil
}

// recordOffset finds the record of a file in a folder of the root: ECMA-119, 9.1.
func (ed editor) recordOffset(v iso9660.Volume, name string) (int64, error) {
	folder, base := path.Split(name)
	dir, err := ed.find(v.Root, path.Clean(folder))
	if err != nil {
		return 0, err
	}
	r, err := ed.find(dir, base)
	if err != nil {
		return 0, err
	}
	content := make([]byte, dir.Size)
	if _, err := ed.ReadAt(content, int64(dir.Extent)*sector); err != nil {
		return 0, err
	}
	return int64(dir.Extent)*sector + int64(bytes.Index(content, r.Raw)), nil // it was read from there
}

// find finds a record in a directory.
func (ed editor) find(dir iso9660.Record, name string) (iso9660.Record, error) {
	records, err := ed.ReadDir(dir)
	for _, r := range records {
		if r.HasName(name) {
			return r, err
		}
	}
	if err == nil {
		err = iso9660.ErrNotFound
	}
	return iso9660.Record{}, err
}
