package inventory

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinbox/pinbox/builder/sbom"
	"github.com/pinbox/pinbox/storage/input"
)

// isSBOM reports whether a file has the name of one, as docs/build.md and the tools of the field name them.
func isSBOM(name string) bool {
	return strings.HasSuffix(name, ".spdx.json") || strings.HasSuffix(name, ".cdx.json")
}

// maxSBOMs is how many files beside a store are looked into.
const maxSBOMs = 8

// readSBOM takes the numbers of packages from the first SBOM in the folder, or beside the folder or the ISO, that
// lists one of the images.
func (v *Inventory) readSBOM(name string) {
	dirs := []string{filepath.Dir(filepath.Clean(name))}
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		dirs = []string{name, filepath.Join(name, "..")}
	}
	read := 0
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // whoever may read the store need not be allowed to read what is around it
		}
		for _, e := range entries {
			if !isSBOM(e.Name()) || !e.Type().IsRegular() || read == maxSBOMs || v.SBOM != "" {
				continue
			}
			read++
			file := filepath.Join(dir, e.Name())
			if err := v.count(file); err != nil && !errors.Is(err, sbom.ErrNotSBOM) {
				v.unread(file, err)
			}
		}
	}
}

// count takes the numbers of packages from an SBOM.
func (v *Inventory) count(file string) error {
	f, err := input.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	counts, err := sbom.Count(f)
	if err != nil {
		return err
	}
	for i := range v.Images {
		if n, ok := counts[v.Images[i].Pin]; ok {
			v.Images[i].Packages, v.SBOM = &n, file
		}
	}
	return nil
}
