package verify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
)

// checkRoot looks for what sums of files do not tell: the short names by which layers
// are mounted, which are symbolic links.
func checkRoot(dir string) (size int64, err error) {
	if size, err = artifact.FolderSize(dir); err != nil {
		return 0, err
	}
	links, err := filepath.Glob(filepath.Join(dir, "overlay", "*", "link"))
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, link := range links {
		short, err := os.ReadFile(link)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		layer := filepath.Base(filepath.Dir(link))
		name := filepath.Join("overlay", "l", strings.TrimSpace(string(short)))
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != filepath.Join("..", layer, "diff") {
			errs = append(errs, fmt.Errorf("%s does not lead to layer %s", filepath.Join(artifact.StoreDir, name), layer))
		}
	}
	return size, errors.Join(errs...)
}
