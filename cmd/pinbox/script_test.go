package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// TestScripts runs the sessions of testdata/script: the command lines that README.md and
// docs show, with the programs as they are built, against a registry on loopback.
//
// Files of a session have ${APP1} and so on for what scriptImages gives, and ${NOW} for the time. The
// command exits runs a command line and compares its exit code.
func TestScripts(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	fixtures.Run(t, "cp", fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), bin)
	node := append(mustRead(t, nodeProgram), randomBytes(5<<20)...) // so large that a store with it is split
	if err := os.WriteFile(filepath.Join(bin, "pinbox-node"), node, 0o755); err != nil {
		t.Fatal(err)
	}
	images := scriptImages(t)
	images["LIVE_ISO"] = liveISOWithKernel(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("GOGC", os.Getenv("GOGC"))
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
			env.Setenv("NOW", time.Now().UTC().Format(time.RFC3339))
			env.Setenv("CONTAINERS_REGISTRIES_CONF", filepath.Join(env.WorkDir, ".registries.conf"))
			for name, value := range images {
				env.Setenv(name, value)
			}
			config := "[[registry]]\nlocation = \"" + images["HOST"] + "\"\ninsecure = true\n"
			err := os.WriteFile(env.Getenv("CONTAINERS_REGISTRIES_CONF"), []byte(config), 0o644)
			return errors.Join(err, expand(env.WorkDir, env.Getenv))
		},
	})
}

// scriptImages are two releases of an image, and another one, by their pins: APP1, APP2
// and DB. APP_TAG is a tag of the first, HOST the registry.
func scriptImages(t *testing.T) map[string]string {
	t.Helper()
	r, images := serve(t, nil), map[string]string{}
	images["HOST"] = r.Host
	for name, sizes := range map[string][]int{"APP1": {3000, 4000}, "APP2": {3000, 5000}, "DB": {3000, 6000}} {
		repository := "site/" + strings.ToLower(strings.TrimRight(name, "12"))
		pin, err := r.PushStack(t.Context(), repository, sizes...)
		if err != nil {
			t.Fatal(err)
		}
		images[name] = pin
	}
	first, err := sample.Stack(3000, 4000)
	if err != nil {
		t.Fatal(err)
	}
	if images["APP_TAG"], err = r.Tag(t.Context(), "site/app", "1", first); err != nil {
		t.Fatal(err)
	}
	return images
}

// expand puts the values of variables into the YAML, JSON and text files below a folder.
func expand(dir string, value func(string) string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !slices.Contains([]string{".yaml", ".json", ".txt"}, filepath.Ext(path)) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(os.Expand(string(content), value)), 0o644)
	})
}

// exits is a command of sessions: exits CODE PROGRAM ARGUMENT...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var failed *exec.ExitError
	got := 0
	if errors.As(err, &failed) {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s: got exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// notInScripts are commands of the documents that sessions cannot run, and who does.
var notInScripts = []struct{ prefix, why string }{
	{"make ", "CI and fixtures/fresh run them"},
	{"CGO_ENABLED=0 go install ", "takes a module proxy: TestGoInstall of fixtures/fresh"},
	{"cosign ", "another program: TestLibraryOfCosign has its library"},
	{"syft ", "another program: TestExtract of builder/look reads the same layout"},
	{"grype ", "another program: TestExtract of builder/look reads the same layout"},
	{"trivy ", "another program: TestExtract of builder/look reads the same layout"},
	{"pkcs11-tool ", "the session runs it with a module of softhsm2, and with its PIN"},
	{"base64 ", "the session runs it by a shell, for the file that it writes"},
	{"openssl dgst -sha256 -sign ", "the session runs it by a shell, for the pipe"},
	{"openssl dgst -sha256 -binary ", "the session runs it by a shell, for the file that it writes"},
	{"openssl pkeyutl ", "the session runs it by a shell, for the pipe"},
	{"helm template ", "another program; the session gives lint a file on stdin"},
	{"sudo ", "takes root: TestDirByTheProgram"},
	{"sudo apt-get ", "another program: make boot-deps"},
	{"sudo env PATH=", "takes root: make boot-test"},
	{"git clone ", "another program: TestTutorial of fixtures/live"},
	{"cd pinbox", "goes with the clone: TestTutorial of fixtures/live"},
	{"export PATH=", "goes with the clone: TestTutorial of fixtures/live"},
	{"cp worker-v2.yaml /etc/pinbox/", "takes a node: the tests of cmd/pinbox-node"},
	{"mv /etc/pinbox/", "takes a node: the tests of cmd/pinbox-node"},
	{"pinbox build --oc-mirror ", "takes output of oc-mirror: TestApplianceOfOCMirror"},
	{"pinbox delta --from out/ --oc-mirror ", "takes output of oc-mirror: the tests of builder"},
	{"pinbox-node ", "takes a node with CRI-O: the tests of cmd/pinbox-node, and fixtures/live"},
	{"HTTPS_PROXY=", "a file of variables"},
	{"NO_PROXY=", "a file of variables"},
	{"cp pxe/", "takes an HTTP server: the tests of runtime/fetch"},
	{"python3 -m http.server ", "runs until it is ended: TestAttachFromServers"},
	{"cp parts/", "takes a stick: TestAttachFromSticks"},
	{"kubeadm ", "another program; the session has such a list, and TestImageListOfKubeadm a real one"},
	{"echo registry.k8s.io/pause", "the session has it in the list"},
	{"grep -rh pause_image", "takes a node; the session has a variable"},
	{"systemctl ", "takes a node: TestSetUpMachine"},
	{"kubectl ", "takes an API server: fixtures/kube applies the same files to one"},
	{"sed -i '1s@{@{\"kubeconfig\"", "takes a node: fixtures/kube has the same setting"},
	{"dnf ", "another program"},
	{"sh install.sh ", "takes a release: TestInstallScript of fixtures/fresh"},
	{"apt install ", "takes a release: TestPackages of fixtures/fresh"},
	{"openshift-install ", "another program: builder/openshift checks the manifests with OpenShift's own types"},
	{"cp out/manifests/", "goes with openshift-install"},
	{"curl -X PATCH ", "takes an assisted installer"},
	{"pinbox fleet status --", "takes an API server: fixtures/kube"},
	{"podman ", "another program: TestSetUpMachine has skopeo, which reads the same files"},
	{"mkdir -p /var/lib/pinbox", "takes root: the tests of storage/root mount stores likewise"},
	{"mount -t squashfs", "takes root: the tests of storage/root mount stores likewise"},
}

// Every command line that README.md and docs show is run by a session, or the table has a
// reason.
func TestEveryCommandOfTheDocsIsRun(t *testing.T) {
	documents := append(glob(t, "../../README.md"), glob(t, "../../docs/*.md")...)
	run := map[string]bool{}
	for _, script := range glob(t, "testdata/script/*.txtar") {
		for _, command := range scriptCommands(string(mustRead(t, script))) {
			run[command] = true
		}
	}
	excused := map[string]bool{}
	for _, document := range documents {
		for _, command := range documentCommands(string(mustRead(t, document))) {
			excuse := ""
			for _, e := range notInScripts {
				if strings.HasPrefix(command, e.prefix) {
					excuse = e.prefix
				}
			}
			excused[excuse] = true
			if excuse == "" && !run[command] {
				t.Errorf("%s shows `%s`: got no session that runs it, want one in testdata/script", filepath.Base(document),
					command)
			}
		}
	}
	for _, e := range notInScripts {
		if !excused[e.prefix] {
			t.Errorf("the table excuses %q: got no document that shows it, want the row gone", e.prefix)
		}
	}
	if !excused[""] {
		t.Error("got no command line out of the documents that a session has to run")
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: got %v, %v, want files", pattern, names, err)
	}
	return names
}

var (
	shellBlock    = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```")
	shellComment  = regexp.MustCompile(`(^|\s)#.*`)
	shellOperator = regexp.MustCompile(`&&|\|\|?|;`)
	scriptCommand = regexp.MustCompile(`(?m)^(?:! )?(?:exec|exits \d+) (.*)$`)
)

// documentCommands are the commands of all blocks of shell in a document. What a console shows is run by
// TestConsoleOfTheReadmeGolden, and by TestTutorial of fixtures/live.
func documentCommands(text string) (commands []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			for _, command := range shellOperator.Split(shellComment.ReplaceAllString(line, ""), -1) {
				if command = strings.Join(strings.Fields(command), " "); command != "" {
					commands = append(commands, command)
				}
			}
		}
	}
	return commands
}

// scriptCommands are the commands that a session runs.
func scriptCommands(text string) (commands []string) {
	script, _, _ := strings.Cut(text, "\n-- ")
	for _, line := range scriptCommand.FindAllStringSubmatch(script, -1) {
		commands = append(commands, strings.Join(strings.Fields(line[1]), " "))
	}
	return commands
}

// The test above finds nothing if documents or sessions are read wrongly.
func TestCommandsOfDocuments(t *testing.T) {
	for name, test := range map[string]struct {
		read func(string) []string
		text string
		want string
	}{
		"document": {
			documentCommands, "pinbox no\n```sh\na | pinbox b -  # c\n\npinbox  d && pinbox e\n```\n```yaml\nf: g\n```\n" +
				"- h\n  ```sh\n  pinbox i\n  ```\n",
			"a, pinbox b -, pinbox d, pinbox e, pinbox i",
		},
		"session": {
			scriptCommands, "# exec no\nexec pinbox a\n! exec pinbox b  -c d\nexits 3 pinbox e\nstdout x\n-- f --\nexec no\n",
			"pinbox a, pinbox b -c d, pinbox e",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(test.read(test.text), ", "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
