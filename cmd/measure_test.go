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

// The limits of the code. `make lint` checks the length of lines.
const (
	maxFunctionLines = 60
	maxFileLines     = 400 // of a file that is no test
	maxMethods       = 20  // of a type
)

// measure compares a measure with its limit.
func measure(t *testing.T, name, what string, got, most int) {
	t.Helper()
	if got > most {
		t.Errorf("%s: got %d %s, want %d at most", name, got, what, most)
	}
}

// source is a file of the module.
type source struct {
	path string // within the module
	file *ast.File
	set  *token.FileSet
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// lines returns the number of lines of a node.
func (s source) lines(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

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
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		all = append(all, source{strings.TrimPrefix(path, root+"/"), file, set})
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("got %d files, %v, want those of the module", len(all), err)
	}
	return all
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() {
			measure(t, s.path, "lines", s.set.File(s.file.Pos()).LineCount(), maxFileLines)
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				measure(t, s.path+": "+f.Name.Name, "lines", s.lines(f), maxFunctionLines)
			}
		}
	}
}

func TestTypesHaveFewMethods(t *testing.T) {
	methods := map[string]int{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[filepath.Dir(s.path)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	for name, n := range methods {
		measure(t, name, "methods", n, maxMethods)
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// Each package has a comment in doc.go, or a program in main.go.
func TestPackagesAreDocumented(t *testing.T) {
	undocumented := map[string]int{}
	for _, s := range sources(t) {
		dir, name := filepath.Split(s.path)
		if _, seen := undocumented[dir]; !seen && !s.test() {
			undocumented[dir] = 1
		}
		begins, place := "Package "+s.file.Name.Name+" ", "doc.go"
		if s.file.Name.Name == "main" {
			begins, place = "Command "+filepath.Base(dir)+" ", "main.go"
		}
		if (name == "doc.go" || name == place) && strings.HasPrefix(s.file.Doc.Text(), begins) {
			undocumented[dir] = 0
		}
	}
	for dir, n := range undocumented {
		measure(t, dir, "missing package comments in doc.go", n, 0)
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
		if err == nil {
			measure(t, path, "KiB", int(fi.Size()>>10), 600) // axe.min.js has 540
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
