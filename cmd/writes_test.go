package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// writers are the packages that may make, rename or change files by themselves, by which calls, and why.
var writers = map[string]struct{ calls, why string }{
	"storage/filelock":     {"os.OpenFile+O_CREATE", "locks have no content"},
	"storage/input":        {"os.OpenFile", "opens what others have made, to read it"},
	"storage/cache":        {"os.OpenFile+O_CREATE os.CreateTemp", "partial files continue, of the user alone: O_NOFOLLOW"},
	"storage/root":         {"os.OpenFile+O_CREATE os.WriteFile os.Rename", "a graph root, in a new folder"},
	"storage":              {"os.WriteFile", "the configuration of a library, in a new folder"},
	"storage/loop":         {"os.OpenFile", "opens devices"},
	"runtime/fetch":        {"os.OpenFile+O_CREATE os.Rename", "a partial file that continues, of root: O_NOFOLLOW"},
	"runtime/setup":        {"os.OpenFile", "opens files of the machine to read them"},
	"runtime/partition":    {"os.OpenFile", "opens the disk that it partitions"},
	"runtime/transfer":     {"os.OpenFile", "opens what others have made, to read it"},
	"runtime/stores/mount": {"os.OpenFile", "reads the log of the kernel"},
	"runtime/stores":       {"os.OpenFile os.Rename", "opens media to read them, and renames stores in its own folder"},
	"builder/artifact":     {"os.OpenFile", "the folder of the result, which is renamed as a whole"},
	"builder":              {"os.Chmod", "the mode of a store in that folder"},
}

// Only packages that have a reason write files without atomicfile: a file that root writes goes through no link,
// whoever has made the folder.
func TestFilesAreWrittenInOneWay(t *testing.T) {
	root := fixtures.Root(t)
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == "fixtures" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.Contains([]string{
				"os.OpenFile", "os.Create", "os.CreateTemp", "os.WriteFile", "os.Rename", "os.Chmod", "os.Chown",
				"os.Lchown", "os.Link", "os.Truncate",
			}, called(call)) {
				return true
			}
			pkg, by := filepath.Dir(name), called(call)
			if by == "os.OpenFile" && mentions(call, "O_CREATE") {
				by += "+O_CREATE"
			}
			if used[pkg+" "+by] = true; !slices.Contains(strings.Fields(writers[pkg].calls), by) {
				t.Errorf("%s:%d: %s, want storage/atomicfile, or a reason in the list", name,
					files.Position(call.Pos()).Line, by)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, may := range writers {
		for by := range strings.FieldsSeq(may.calls) {
			if !used[pkg+" "+by] {
				t.Errorf("%s calls %s no more, but has a reason to: %s", pkg, by, may.why)
			}
		}
	}
}

// mentions reports whether a name stands in a call.
func mentions(call *ast.CallExpr, name string) (found bool) {
	ast.Inspect(call, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return true
	})
	return found
}
