package cmd_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testInText = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
	testInCode = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
)

// Each promise of docs/trust.md names a test, and there is each test that it names.
func TestPromisesHaveTests(t *testing.T) {
	tests := map[string]bool{}
	if err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testInCode.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	rows, promises := 0, false
	for line := range strings.Lines(page(t, "docs/trust.md")) {
		header := strings.HasPrefix(line, "| promise")
		promises = header || promises && strings.HasPrefix(line, "|")
		if !promises || header || strings.HasPrefix(line, "|---") {
			continue
		}
		rows++
		named := matches(testInText, line)
		if len(named) == 0 {
			t.Errorf("got no test in %q, want one", line)
		}
		for _, name := range named {
			if !tests[name] {
				t.Errorf("got the test %s, want one that exists", name)
			}
		}
	}
	if rows < 20 {
		t.Errorf("got %d promises, want more", rows)
	}
}

// What reads a file that others wrote has a fuzz target.
func TestReadersHaveFuzzTargets(t *testing.T) {
	for reader, file := range map[string]string{
		"layer tar to store": "storage/compose/fuzz_test.go:FuzzPackLayer", "packs": "storage/compose/fuzz_test.go:FuzzPacks",
		"tar-split":               "storage/compose/fuzz_test.go:FuzzReadLayer",
		"squashfs":                "storage/squashfs/reader_test.go:FuzzReader",
		"ISO structures":          "storage/iso9660/fuzz_test.go:FuzzReadDir",
		"Ignition area of an ISO": "builder/iso/fuzz_test.go:FuzzReadArchives",
		"kernel arguments":        "builder/iso/fuzz_test.go:FuzzKargs",
		"ISO that is edited":      "builder/iso/image_test.go:FuzzOpen",
		"lock":                    "storage/pinset/decode_test.go:FuzzDecodeLock",
		"delta.json":              "storage/pinset/decode_test.go:FuzzDecodeDelta",
		"node.json":               "storage/layout/nodeconfig_test.go:FuzzNodeConfig",
		"state.json":              "runtime/stores/statecheck_test.go:FuzzReadState",
		"sums":                    "storage/layout/sums_test.go:FuzzSums",
		"signatures":              "storage/signature/fuzz_test.go:FuzzSignature",
		"records of a store":      "storage/layout/store_test.go:FuzzRecords",
		"superblock of a tree":    "storage/verity/verity_test.go:FuzzParseSuperblock",
		"appliance.yaml":          "builder/spec/fuzz_test.go:FuzzAppliance",
		"cluster.json":            "runtime/cluster/file_test.go:FuzzDecodeKnown",
		"PinnedImageSet":          "storage/pinset/fuzz_test.go:FuzzDecodeSets",
		"drop-ins of CRI-O":       "runtime/crio/fuzz_test.go:FuzzReadConfig",
		"archive of oc-mirror":    "builder/source/fuzz_test.go:FuzzOCMirrorArchive",
		"image-references":        "builder/source/fuzz_test.go:FuzzImageReferences",
		"Kubernetes objects":      "builder/source/fuzz_test.go:FuzzManifests",
		"manifests and indexes":   "storage/fuzz_test.go:FuzzLayout",
		"gzip":                    "storage/codec/gzip_test.go:FuzzGzip",
		"provenance.json":         "builder/provenance/provenance_test.go:FuzzDecode",
	} {
		name, target, _ := strings.Cut(file, ":")
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || !strings.Contains(string(text), "\nfunc "+target+"(f *testing.F) {") {
			t.Errorf("%s: got no %s in %s, %v, want a fuzz target", reader, target, name, err)
		}
	}
}
