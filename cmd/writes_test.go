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

// writers are the packages that may make, rename or change files by themselves, and why.
var writers = map[string]string{
	"storage/filelock":     "locks have no content",
	"storage/input":        "opens what others have made, to read it",
	"storage/cache":        "a folder of the user alone, with partial files that continue: O_NOFOLLOW",
	"storage/root":         "a graph root of containers/storage, in a new folder",
	"storage":              "the configuration of a library, in a new folder",
	"storage/loop":         "opens devices",
	"runtime/fetch":        "a partial file that continues, in a folder of root: O_NOFOLLOW",
	"runtime/setup":        "opens files of the machine to read them",
	"runtime/partition":    "opens the disk that it partitions",
	"runtime/transfer":     "opens what others have made, to read it",
	"runtime/stores/mount": "reads the log of the kernel",
	"runtime/stores":       "opens media to read them, and renames stores in its own folder",
	"builder/artifact":     "the folder of the result, which is renamed as a whole",
	"builder":              "the mode of a store in that folder",
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
			pkg := filepath.Dir(name)
			if used[pkg] = true; writers[pkg] == "" {
				t.Errorf("%s:%d: %s, want storage/atomicfile, or a reason in the list", name,
					files.Position(call.Pos()).Line, called(call))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range writers {
		if !used[pkg] {
			t.Errorf("%s writes no files any more, but has a reason to", pkg)
		}
	}
}
