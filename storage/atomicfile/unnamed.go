package atomicfile

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"
)

// Unnamed opens an unnamed temporary file in a directory, "" for os.TempDir: O_TMPFILE of open(2). The kernel frees it
// when the process ends. On a file system without O_TMPFILE, the file has a name until Unnamed
// returns.
func Unnamed(dir string) (*os.File, error) {
	tree, err := os.OpenRoot(cmp.Or(dir, os.TempDir()))
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	folder, err := tree.Open(".")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if f := unnamed(folder); f != nil {
		return f, nil
	}
	name := ".unnamed-" + rand.Text()
	f, err := createNew(tree, name)
	if err != nil {
		return nil, err
	}
	if err := tree.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
