package cmd_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// othersFlags lists flags of other programs in the documents, by program.
var othersFlags = map[string]string{
	"--all":                          "oc",
	"--autologin":                    "agetty",
	"--collector.textfile.directory": "node_exporter",
	"--cri-socket":                   "kubeadm",
	"--config-dir":                   "kubelet",
	"--dir":                          "openshift-install",
	"--dry-run":                      "oc-mirror",
	"--keep-baud":                    "agetty",
	"--overwrite":                    "kubectl",
	"--noclear":                      "agetty",
	"--hash-offset":                  "veritysetup",
	"--feature-gates":                "kube-apiserver",
	"--id":                           "pkcs11-tool",
	"--input":                        "trivy",
	"--input-file":                   "pkcs11-tool",
	"--login":                        "pkcs11-tool",
	"--mechanism":                    "pkcs11-tool",
	"--module":                       "pkcs11-tool",
	"--output-file":                  "pkcs11-tool",
	"--output-signature":             "cosign",
	"--read-object":                  "pkcs11-tool",
	"--sign":                         "pkcs11-tool",
	"--signature-format":             "pkcs11-tool",
	"--insecure-ignore-tlog":         "cosign",
	"--kubernetes-version":           "kubeadm",
	"--predicate":                    "cosign",
	"--preserve-digests":             "skopeo",
	"--pull":                         "podman",
	"--rm":                           "podman",
	"--root-hash-file":               "veritysetup",
	"--save-partlabel":               "coreos-installer",
	"--runtime-config":               "kube-apiserver",
	"--server-side":                  "oc, kubectl",
	"--signature":                    "cosign",
	"--storage-opt":                  "podman",
	"--timeout":                      "oc",
	"--tlog-upload":                  "cosign",
	"--to-image":                     "oc",
	"--type":                         "cosign, pkcs11-tool",
}

var (
	flagInText  = regexp.MustCompile("--[a-z][a-z.-]*[a-z]")
	exitCodeRow = regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`)
	exitCode    = regexp.MustCompile(`(?m)^  (\d+)  (.*(?:\n     .*)*)$`)
	code        = regexp.MustCompile("`([^`]+)`")
	lintRule    = regexp.MustCompile(`\badd\((?:[^",]+, )?"([a-z-]+)",\s`)
	faultClass  = regexp.MustCompile(`Class += "([a-z ]+)"`)
	metric      = regexp.MustCompile(`"(pinbox_[a-z_]+)"`)
	nodeCommand = regexp.MustCompile(`(?m)^pinbox-node ([a-z-]+)(?: [A-Z\[]\S+)?  +[a-z]`)
)

// page reads a file of the module.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are the pages of docs that people write.
func pages(t *testing.T) (names []string) {
	t.Helper()
	all, err := filepath.Glob("../docs/*.md")
	if err != nil || len(all) < 20 {
		t.Fatalf("got %v, %v, want all pages", all, err)
	}
	for _, name := range all {
		if name = strings.TrimPrefix(name, "../"); name != "docs/trust.md" && name != "docs/glossary.md" {
			names = append(names, name)
		}
	}
	return names
}

// section returns a section of a page without its title.
func section(t *testing.T, name, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(page(t, name), "\n## "+title+"\n")
	if !found {
		t.Fatalf("%s: got no section %q, want one", name, title)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// matches returns the first group of each match in a text, sorted, each once.
func matches(pattern *regexp.Regexp, text string) []string {
	found := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// firstColumn returns the words in code of the first column of the tables in a text.
func firstColumn(text string) []string {
	var column strings.Builder
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			column.WriteString(cells[1])
		}
	}
	return matches(code, column.String())
}

func TestFlagsOfTheDocs(t *testing.T) {
	flags, unused := map[string]bool{}, maps.Clone(othersFlags)
	for _, program := range programs {
		for _, h := range helps(t, program) {
			for name := range h.usages {
				flags["--"+name] = true
			}
		}
	}
	for _, name := range append(pages(t), "README.md") {
		t.Run(name, func(t *testing.T) {
			for _, flag := range flagInText.FindAllString(page(t, name), -1) {
				delete(unused, flag)
				if !flags[flag] && othersFlags[flag] == "" {
					t.Errorf("got %s, want a flag of pinbox or pinbox-node, or a row in the table", flag)
				}
			}
		})
	}
	for flag, program := range unused {
		t.Errorf("got the row %s of %s in the table, want none: no page has it", flag, program)
	}
}

func TestCommandsOfTheDocs(t *testing.T) {
	var commands []string
	for _, h := range helps(t, "pinbox-node")[1:] {
		commands = append(commands, h.path[0])
	}
	slices.Sort(commands)
	if diff := cmp.Diff(commands, matches(nodeCommand, page(t, "docs/node.md"))); diff != "" {
		t.Errorf("commands (-help +docs/node.md):\n%s", diff)
	}
	var text strings.Builder
	for _, name := range pages(t) {
		text.WriteString(page(t, name))
	}
	for _, h := range helps(t, "pinbox")[1:] {
		line := "pinbox " + strings.Join(h.path, " ")
		if len(h.commands) == 0 && !strings.Contains(text.String(), line+" ") &&
			line != "pinbox demo" {
			t.Errorf("got no page that shows %q, want one", line)
		}
	}
}

// exitCodes returns texts by exit codes: plain, on one line.
func exitCodes(pattern *regexp.Regexp, text string) map[string]string {
	codes := map[string]string{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		codes[m[1]] = strings.Join(strings.Fields(strings.ReplaceAll(m[2], "`", "")), " ")
	}
	return codes
}

func TestExitCodesOfTheDocs(t *testing.T) {
	want := exitCodes(exitCode, run(t, "pinbox", "--help").out)
	if diff := cmp.Diff(want, exitCodes(exitCodeRow, section(t, "docs/cli.md", "Exit codes"))); diff != "" {
		t.Errorf("pinbox (-help +docs/cli.md):\n%s", diff)
	}
	// docs/node.md describes the codes in more words than the help.
	want = exitCodes(exitCode, run(t, "pinbox-node", "--help").out)
	got := exitCodes(exitCodeRow, section(t, "docs/node.md", "Exit codes"))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" || len(want) == 0 {
		t.Errorf("pinbox-node (-help +docs/node.md):\n%s", diff)
	}
}

// Tables of the documents have the words that the programs print.
func TestTablesOfTheDocs(t *testing.T) {
	for title, test := range map[string]struct {
		page    string
		pattern *regexp.Regexp
		files   []string
	}{
		"Checking manifests": {
			"docs/build.md", lintRule, []string{
				"builder/lint/lint.go", "builder/lint/openshift.go", "storage/pinset/lint.go",
			},
		},
		"When something fails": {"docs/node.md", faultClass, []string{"runtime/fault.go"}},
		"Metrics":              {"docs/node.md", metric, []string{"runtime/metrics.go"}},
	} {
		t.Run(title, func(t *testing.T) {
			var source strings.Builder
			for _, name := range test.files {
				source.WriteString(page(t, name))
			}
			want := matches(test.pattern, source.String())
			if diff := cmp.Diff(want, firstColumn(section(t, test.page, title))); diff != "" || len(want) < 5 {
				t.Errorf("got %d words in the code, (-code +%s):\n%s", len(want), test.page, diff)
			}
		})
	}
}
