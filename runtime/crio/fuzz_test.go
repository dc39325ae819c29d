package crio_test

import (
	"testing"
	"testing/fstest"

	"github.com/pinbox/pinbox/runtime/crio"
)

// Whatever the drop-ins of CRI-O have, reading them ends with a configuration or an error.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte("[crio]\nstorage_option = [\"overlay.imagestore=/a\"]\n[crio.image]\npinned_images = [\"a\"]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := &fstest.MapFile{Data: text}
		c, err := crio.ReadConfig(fstest.MapFS{"crio.conf": file, "crio.conf.d/50-a": file})
		if err == nil {
			_ = c.ImageStores()
		}
	})
}
