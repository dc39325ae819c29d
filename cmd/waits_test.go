package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// mostSleeps is how many places of the tests may let time pass. Each says why there is no event to wait for.
const mostSleeps = 10

// A test waits for events: time that passes proves nothing on a busy machine. Inside a bubble of testing/synctest,
// time is part of the test.
func TestTestsDoNotSleep(t *testing.T) {
	sleeps := 0
	root := fixtures.Root(t)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "fixtures"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		reasons := map[int]string{} // of the lines with a comment, and of those after one
		for _, group := range file.Comments {
			line := files.Position(group.End()).Line
			reasons[line], reasons[line+1] = group.Text(), group.Text()
		}
		for _, at := range letsTimePass(file) {
			line := files.Position(at).Line
			if strings.Contains(reasons[line], "in a bubble") {
				continue // by a function of its own
			}
			if sleeps++; reasons[line] == "" {
				t.Errorf("%s:%d lets time pass, want an event, or a comment with the reason", name, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d places let time pass", sleeps); sleeps > mostSleeps {
		t.Errorf("got %d places that let time pass, want at most %d", sleeps, mostSleeps)
	}
}

// letsTimePass finds the calls of time.Sleep and time.After outside of bubbles.
func letsTimePass(file *ast.File) (at []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch called(call) {
		case "time.Sleep", "time.After":
			at = append(at, call.Pos())
		case "synctest.Test":
			return false
		}
		return true
	})
	return at
}

// called is the function of a package that an expression calls, such as time.Sleep.
func called(call *ast.CallExpr) string {
	if f, ok := call.Fun.(*ast.SelectorExpr); ok {
		return fmt.Sprintf("%s.%s", f.X, f.Sel.Name)
	}
	return ""
}
