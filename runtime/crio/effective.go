package crio

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Effective is what the CRI-O of a machine runs with, as far as stores and pins are concerned.
type Effective struct {
	// Config is the sum of its files.
	Config
	// Storage is what storage.conf sets, and StorageBy that file; "" if there is none.
	Storage   Storage
	StorageBy string
	// Service is how it is started: its options come before its files.
	Service Service
	// Running is what it says itself; nil if it was not asked, or does not answer.
	Running *Config
}

// ReadEffective reads the files: those of its folder etc, and the storage.conf that counts by read, which returns nil
// for a file that is not there. What can be read is there even with an error.
func ReadEffective(etc fs.FS, read func(name string) ([]byte, error)) (e Effective, err error) {
	e.Config, err = ReadConfig(etc)
	for _, name := range []string{StorageConf, VendorStorageConf} {
		content, readErr := read(name)
		if content == nil && readErr == nil {
			continue
		}
		if e.StorageBy = name; readErr == nil {
			e.Storage, readErr = ReadStorage(content)
		}
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, readErr))
		}
		break
	}
	return e, err
}

// Stores are the additional image stores by its files; those of storage.conf come first: ReloadConfigurationFile in
// containers/storage, types/options.go.
func (e Effective) Stores() []string {
	var options []string
	for _, store := range e.Storage.Stores {
		options = append(options, "overlay.imagestore="+store)
	}
	return Config{StorageOptions: append(options, e.StorageOptions...)}.ImageStores()
}

// Roots are the graph roots of its own store: that of its images, and of its containers if that is another.
func (e Effective) Roots() []string {
	roots := []string{cmp.Or(e.Root, e.Storage.GraphRoot, DefaultRoot)}
	if e.Storage.ImageStore != "" {
		roots = append(roots, e.Storage.ImageStore)
	}
	return roots
}

// RunRoots are the folders of containers/storage that may have records which do not survive a reboot.
func (e Effective) RunRoots() (roots []string) {
	for _, root := range []string{e.RunRoot, e.Storage.RunRoot, DefaultRunRoot} {
		if root != "" && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots
}

// Staging is the folder where pulls keep blobs until they are unpacked.
func (e Effective) Staging() string { return cmp.Or(e.BigFiles, "/var/tmp") }

// Policy is the file of the signature policy.
func (e Effective) Policy() string {
	if e.Running != nil {
		return cmp.Or(e.Running.SignaturePolicy, DefaultPolicy)
	}
	return cmp.Or(e.SignaturePolicy, DefaultPolicy)
}

// Unsuitable lists why CRI-O has no stores of pinbox, or does not start with them: options that replace what files say,
// and a storage driver other than overlay.
func (e Effective) Unsuitable() []string {
	problems := e.Service.Replaced(etcCrio)
	driver, by := e.Service.value(optionDriver)
	if by == "" {
		driver, by = e.StorageDriver, e.StorageDriverBy
	}
	if driver == "" {
		driver, by = e.Storage.Driver, e.StorageBy
	}
	if driver != "" && driver != "overlay" {
		problems = append(problems, fmt.Sprintf("%s sets the storage driver %s, with which CRI-O does not start if it has "+
			"image stores: they need overlay", by, driver))
	}
	return problems
}
