package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source is a file of the module.
type source struct {
	path string // within the module
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources returns all files of the module, with any build constraint.
func sources(t *testing.T) (all []source) {
	t.Helper()
	const root = ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		all = append(all, source{strings.TrimPrefix(path, root+"/"), file})
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("got %d files, %v, want those of the module", len(all), err)
	}
	return all
}

// Each package has a comment in doc.go, or a program in main.go.
func TestPackagesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		dir, name := filepath.Split(s.path)
		if _, seen := documented[dir]; !seen && !s.test() {
			documented[dir] = false
		}
		begins, place := "Package "+s.file.Name.Name+" ", "doc.go"
		if s.file.Name.Name == "main" {
			begins, place = "Command "+filepath.Base(dir)+" ", "main.go"
		}
		if (name == "doc.go" || name == place) && strings.HasPrefix(s.file.Doc.Text(), begins) {
			documented[dir] = true
		}
	}
	for dir, is := range documented {
		if !is {
			t.Errorf("%s: got no package comment in doc.go or main.go", dir)
		}
	}
}

// A program of 37 MB was once committed with the source.
func TestNoLargeFiles(t *testing.T) {
	ignored := []string{"../.git", "../bin", "../demo", "../out", "../pinbox", "../pinbox-node"} // .gitignore
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(ignored, path) && d.IsDir():
			return fs.SkipDir
		case slices.Contains(ignored, path) || d.IsDir():
			return nil
		}
		fi, err := d.Info()
		if err == nil && fi.Size() > 600<<10 { // axe.min.js has 540 KiB
			t.Errorf("%s: got %d KiB, want 600 at most", path, fi.Size()>>10)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
