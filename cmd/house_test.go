package cmd_test

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/pinset"
)

const module = "github.com/pinbox/pinbox/"

// pkg is a package as `go list` prints it.
type pkg struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(out); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// room returns the path of a package within the module, or "" for a foreign package.
func room(importPath string) string {
	r, _ := strings.CutPrefix(importPath+"/", module)
	if r == importPath+"/" {
		return ""
	}
	return strings.TrimSuffix(r, "/")
}

func floor(room string) string { f, _, _ := strings.Cut(room, "/"); return f }

// below lists the floors that each floor may import, in addition to itself.
var below = map[string][]string{
	"storage": {},
	// What brings containers/storage is missing here: see libraryUsers.
	"runtime": {
		"storage/atomicfile", "storage/audit", "storage/bytesize", "storage/compose", "storage/download", "storage/fanout",
		"storage/fault", "storage/filelock", "storage/input",
		"storage/iso9660", "storage/layout", "storage/loop", "storage/page", "storage/pinset", "storage/realm", "storage/release",
		"storage/signature", "storage/squashfs", "storage/thin", "storage/verity",
	},
	// runtime/crio reads what CRI-O will read of a config.
	"ignition": {"runtime/crio", "runtime/provision", "storage/fault", "storage/layout", "storage/pinset", "storage/verity"},
	// runtime/fleet reads the reports of nodes, which name the images that they lack.
	"builder": {"ignition", "runtime/crio", "runtime/fleet", "runtime/kubelet", "runtime/provision", "storage"},
	"cmd":     {"builder", "docs", "ignition", "runtime", "storage"},
}

// libraryRoom is the room that has containers/storage, and libraryUsers the only ones of runtime that import it: they
// write to CRI-O's own store, whose format and locks are those of the library.
const libraryRoom, libraryUsers = "storage/root", "runtime/aside runtime/volumes"

func TestNoArrowRunsUp(t *testing.T) {
	for _, p := range list(t, "./...") {
		from := room(p.ImportPath)
		if floor(from) == "fixtures" {
			continue // test material, imported by tests only
		}
		for _, imported := range p.Imports {
			to := room(imported)
			if to == "" || floor(from) == floor(to) || slices.Contains(strings.Fields(libraryUsers), from) && to == libraryRoom {
				continue
			}
			if !slices.ContainsFunc(below[floor(from)], func(may string) bool {
				return to == may || strings.HasPrefix(to, may+"/")
			}) {
				t.Errorf("%s: got an import of %s, want no import of a higher floor", from, to)
			}
		}
	}
}

// rooms lists the rooms of each floor from the top down. A room imports only rooms of lower lines, and
// none of its own line.
var rooms = map[string][]string{
	"cmd": {
		"cmd/pinbox cmd/pinbox-node",
		"cmd/cli",
	},
	"builder": {
		"builder",
		"builder/firstboot builder/inspect builder/lint builder/look builder/resolve builder/runbook builder/sites builder/verify",
		"builder/openshift",
		"builder/base builder/spec",
		"builder/format builder/source",
		"builder/artifact builder/mirror",
		"builder/demo builder/iso builder/progress builder/provenance builder/pullpolicy",
	},
	"ignition": {
		"ignition",
	},
	"runtime": {
		"runtime/node runtime/pages runtime/setup",
		"runtime/fetch runtime/systemd runtime/volumes",
		"runtime/cluster runtime/partition runtime/provision runtime/stores",
		"runtime/fleet",
		"runtime",
		"runtime/aside runtime/cri runtime/crio runtime/disk runtime/kubelet runtime/registry runtime/stores/mount " +
			"runtime/transfer runtime/wanted runtime/watch",
	},
	"storage": {
		"storage",
		"storage/cache storage/download storage/root",
		"storage/compose storage/environment storage/release storage/thin",
		"storage/audit storage/signature",
		"storage/layout storage/squashfs",
		"storage/atomicfile storage/codec storage/pinset",
		"storage/bytesize storage/deflate storage/document storage/filelock storage/iso9660 storage/loop " +
			"storage/verity storage/zstd",
		"storage/fanout storage/input storage/page storage/realm",
		"storage/fault",
	},
}

func TestNoRoomCallsUp(t *testing.T) {
	line := map[string]int{} // of each room, from 1
	for _, floor := range rooms {
		for n, names := range floor {
			for _, name := range strings.Fields(names) {
				line[name] = n + 1
			}
		}
	}
	for _, p := range list(t, "./...") {
		from := room(p.ImportPath)
		if rooms[floor(from)] == nil || from == "cmd" { // fixtures, and the folder of this test
			continue
		}
		if line[from] == 0 {
			t.Errorf("got no line of the table with the room %s, want one", from)
		}
		for _, imported := range p.Imports {
			if to := room(imported); to != "" && floor(from) == floor(to) && line[to] <= line[from] {
				t.Errorf("got %s importing %s, want only imports of rooms in lower lines", from, to)
			}
		}
	}
}

// doors lists the rooms that may import a foreign library.
var doors = map[string][]string{
	// the reference parser is the vocabulary's too
	"go.podman.io/image/v5/docker/reference": {"storage", "storage/pinset", "storage/realm", "runtime/registry"},
	"go.podman.io/image":                     {"storage", "storage/download", "storage/realm", "runtime/registry"},
	"go.podman.io/storage":                   {"fixtures/oracle", "storage/root"},
	// its error for a policy.json that is not there
	"go.podman.io/storage/pkg/configfile": {"storage"},
	// the home folder, as containers/image finds it
	"go.podman.io/storage/pkg/unshare": {"storage/environment", "storage/root"},
	"github.com/sirupsen/logrus":       {"cmd/cli"}, // the logger of these libraries
	"github.com/ProtonMail/go-crypto":  {"storage"},
	"github.com/secure-systems-lab":    {"storage/signature"},
	"github.com/in-toto":               {"builder/provenance"},
	"github.com/coreos":                {"ignition"},
	"github.com/coreos/go-semver":      {"builder/source", "storage/pinset"},
	"github.com/coreos/go-systemd":     {"runtime/systemd"},
	"github.com/fsnotify/fsnotify":     {"runtime/watch"},
	"k8s.io/cri-api": {
		"runtime/cri", "fixtures/crio", "fixtures/fakecri", "fixtures/live/guest", "fixtures/pod",
	},
	"google.golang.org/grpc": {
		"runtime/cri", "fixtures/crio", "fixtures/fakecri", "fixtures/live/guest", "fixtures/pod",
	},
	"k8s.io/client-go":                       {"runtime/cluster"},
	"sigs.k8s.io/controller-runtime":         {"runtime/cluster"},
	"github.com/spf13":                       {"cmd/cli", "cmd/pinbox", "cmd/pinbox-node"},
	"github.com/google/go-containerregistry": {"fixtures/sample", "fixtures/bench"},
}

func TestForeignLibrariesHaveOneDoor(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, imported := range p.Imports {
			door := ""
			for library := range doors {
				if strings.HasPrefix(imported+"/", library+"/") && len(library) > len(door) {
					door = library
				}
			}
			if door != "" && !slices.Contains(doors[door], room(p.ImportPath)) {
				t.Errorf("%s: got an import of %s, want it only in %v", room(p.ImportPath), imported, doors[door])
			}
		}
	}
}

// The decisions on a node are tested without CRI-O, a cluster and systemd, so package runtime imports none of
// their libraries.
func TestRuntimeIsPure(t *testing.T) {
	for _, p := range list(t, "-deps", "./runtime") {
		for _, library := range []string{
			"google.golang.org/grpc", "k8s.io", "sigs.k8s.io", "github.com/coreos/go-systemd", "github.com/godbus/dbus",
		} {
			if strings.HasPrefix(p.ImportPath+"/", library+"/") {
				t.Errorf("got a dependency of runtime on %s, want none", p.ImportPath)
			}
		}
	}
}

// `make cross` compiles both programs for each architecture that pinbox offers.
func TestEveryArchitectureIsBuilt(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	want := "\nARCHITECTURES := " + strings.Join(pinset.Architectures(), " ") + "\n"
	if !strings.Contains(string(makefile), want) {
		t.Errorf("got another list in the Makefile, want %q", want)
	}
}

// Package kubernetes of client-go has the clients of all resources. The packages prepare themselves when a program
// starts: each command took 43 MB, of which 11 were theirs.
func TestProgramsLinkNoClientsOfAllResources(t *testing.T) {
	for _, p := range list(t, "-deps", "./cmd/pinbox", "./cmd/pinbox-node") {
		if strings.HasPrefix(p.ImportPath+"/", "k8s.io/client-go/kubernetes/") {
			t.Errorf("got a dependency on %s, want none", p.ImportPath)
		}
	}
}

// The node's program is small and static: it has neither packages of builder nor C.
func TestNodeBinaryStaysSmall(t *testing.T) {
	for _, p := range list(t, "-deps", "./cmd/pinbox-node") {
		if f := floor(room(p.ImportPath)); f == "builder" || f == "ignition" || f == "fixtures" {
			t.Errorf("got a dependency of pinbox-node on %s, want none", p.ImportPath)
		}
		for _, heavy := range []string{
			"github.com/coreos/butane", "github.com/coreos/ignition",
			"github.com/google/go-containerregistry",
		} {
			if strings.HasPrefix(p.ImportPath+"/", heavy+"/") {
				t.Errorf("got a dependency of pinbox-node on %s, want none", p.ImportPath)
			}
		}
	}
	program := fixtures.Program(t, module+"cmd/pinbox-node")
	fi, err := os.Stat(program)
	if err != nil || fi.Size() > 45<<20 {
		t.Errorf("%v, %v", fi, err)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("got the libraries %v of pinbox-node, %v; want none", libraries, err)
	}
}

// The tree in CONTRIBUTING.md has each room.
func TestTreeHasEachRoom(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(text), "```text\ncmd/\n")
	tree, _, _ = strings.Cut(tree, "```")
	names := strings.FieldsFunc(tree, func(r rune) bool { return strings.ContainsRune(" ,\n", r) })
	for _, p := range list(t, "./...") {
		at := room(p.ImportPath)
		_, name, below := strings.Cut(at, "/")
		if at == "" || floor(at) == "fixtures" || !below {
			continue
		}
		if !slices.Contains(names, name) {
			t.Errorf("CONTRIBUTING.md: no line for %s", at)
		}
	}
}
