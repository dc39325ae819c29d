package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/faults"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// emptyRoot is a root with nothing but the two programs, /tmp and /proc, and who works
// in it.
type emptyRoot struct {
	noProc bool
	// mountable is true for a mount point with devices, in which files can be mounted.
	mountable bool
	env       []string
	uid       uint32
}

// The README's first command failed on a machine without any containers package,
// because the library's error for a missing policy.json was taken for another. What a
// machine may lack is tested in a root that lacks it: no policy.json, no registries.conf,
// no passwd, no home folder, no /proc.
func TestEmptyRoot(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	files := emptyRootFiles(t)
	for title, root := range map[string]emptyRoot{
		"root":                        {env: []string{"HOME=/tmp"}, mountable: true},
		"no /proc":                    {env: []string{"HOME=/tmp"}, noProc: true},
		"no HOME, no TMPDIR":          {env: []string{"TMPDIR=/missing"}},
		"HOME cannot be written":      {env: []string{"HOME=/readonly"}},
		"user without a passwd entry": {env: []string{"XDG_RUNTIME_DIR=/run/user/12345"}, uid: 12345},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			dir := root.make(t, files)
			for _, verb := range emptyRootVerbs {
				root.run(t, dir, verb)
			}
		})
	}
}

// verb is a command line, and what comes of it.
type verb struct {
	line   string
	output string
	// needs are the conditions of the command, with its output and exit code without them.
	needs []need
}

type need struct {
	missing func(emptyRoot) bool
	code    int
	output  string
}

var (
	needProc = need{func(r emptyRoot) bool { return r.noProc }, fault.Other, "/proc is not mounted"}
	needTemp = need{
		func(r emptyRoot) bool { return slices.Contains(r.env, "TMPDIR=/missing") }, fault.Other, "set TMPDIR",
	}
	needRoot = need{func(r emptyRoot) bool { return r.uid != 0 }, fault.Usage, "takes root"}
	needHome = need{func(r emptyRoot) bool { return !slices.ContainsFunc(r.env, isHome) }, fault.Usage, "$HOME"}
)

func isHome(variable string) bool { return strings.HasPrefix(variable, "HOME=") }

// emptyRootVerbs are all of pinbox, in an order in which each finds what it needs.
var emptyRootVerbs = []verb{
	{line: "--version", output: "pinbox version"},
	{line: "completion bash", output: "bash completion"},
	{line: "demo -o /tmp/demo", output: "/tmp/demo/appliance is intact: 13 files, 2 images"},
	{line: "plan --set /tmp/set.yaml --cert-dir /tmp", output: "1 image of 1 set"},
	{line: "lock -c /tmp/appliance.yaml --cert-dir /tmp", output: "appliance.lock.json"},
	{line: "build --set /tmp/set.yaml --cert-dir /tmp --cache-dir /tmp/cache -o /tmp/out", output: "built "},
	{line: "verify /tmp/out", output: "is intact"},
	{
		line:   "build --set /tmp/set.yaml --cert-dir /tmp --iso /tmp/live.iso --cache-dir /tmp/cache -o /tmp/iso",
		output: "built ",
	},
	{line: "verify /tmp/iso", output: "is intact"},
	{
		line: "build -c /tmp/folder.yaml --cert-dir /tmp --cache-dir /tmp/cache -o /tmp/folder", output: "built ",
		needs: []need{needRoot, needProc},
	},
	{line: "verify /tmp/folder", output: "is intact", needs: []need{
		{func(r emptyRoot) bool { return r.noProc || r.uid != 0 }, fault.Input, "/tmp/folder: no such file"}}},
	{
		line:   "delta --from /tmp/out --set /tmp/next.yaml --cert-dir /tmp --cache-dir /tmp/cache -o /tmp/delta",
		output: "built ",
	},
	{line: "verify /tmp/delta --base /tmp/out", output: "is intact"},
	{line: "inspect /tmp/out", output: "SAVED WITHOUT IT"},
	{line: "diff /tmp/out /tmp/delta", output: "images: 0 changed, 1 added"},
	{line: "medium /tmp/delta -o /tmp/delta.iso", output: "/tmp/delta.iso"},
	{line: "inspect /tmp/iso/appliance.iso", output: "config.ign"},
	{line: "iso extract /tmp/iso/appliance.iso --lock", output: "sha256:"},
	{line: "lint --lock /tmp/out /tmp/pod.yaml", output: "0 findings in 1 use"},
	{line: "cache ls", needs: []need{needHome}},
	{line: "cache ls --cache-dir /tmp/cache", output: "1"},
	{line: "cache verify --cache-dir /tmp/cache"},
	{line: "cache prune --all --cache-dir /tmp/cache"},
	{line: "plan --archive /tmp/image.tar.gz", output: "1 image of 1 set", needs: []need{needTemp}},
	{
		line: "plan --set /tmp/set.yaml --cert-dir /tmp --mirrors /tmp/mirrors.yaml", output: "1 image of 1 set",
		needs: []need{needTemp},
	},
	{
		line: "plan --set /tmp/set.yaml --cert-dir /tmp --authfile /tmp/auth.json", output: "1 image of 1 set",
		needs: []need{needTemp, needProc},
	},
	{
		line: "plan --set /tmp/set.yaml --insecure-registry 127.0.0.1", output: "1 image of 1 set",
		needs: []need{needTemp},
	},
	{line: "plan --containers-storage quay.io/a/b:1", needs: []need{
		{func(emptyRoot) bool { return true }, fault.Input, "containers/storage: no such file"}}},
}

// emptyRootFiles are the programs and what the command lines name.
func emptyRootFiles(t *testing.T) map[string]string {
	t.Helper()
	r := serve(t, nil)
	first, second := image(t, "amd64", layer(t, sample.File("a", "first"))),
		image(t, "amd64", layer(t, sample.File("a", "first")), layer(t, sample.File("b", "second")))
	cert, certs := certificate(t)
	front := faults.Start(t, r.Host, cert) // for a registry without TLS there must be a temporary folder
	pin, next := strings.Replace(push(t, r, first), r.Host, front.Host, 1),
		strings.Replace(push(t, r, second), r.Host, front.Host, 1)
	head := "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: ship-7}\nspec:\n" +
		"  sources: [{pinnedImageSets: [set.yaml]}]\n"
	return map[string]string{
		"pinbox":             string(mustRead(t, fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"))),
		"pinbox-node":        string(mustRead(t, nodeProgram)),
		"tmp/set.yaml":       string(sample.Set("worker", pin)),
		"tmp/next.yaml":      string(sample.Set("worker", pin, next)),
		"tmp/appliance.yaml": head,
		"tmp/folder.yaml":    head + "  store: {format: dir}\n  node: {store: {path: /srv/store}}\n",
		"tmp/ca.crt":         string(mustRead(t, filepath.Join(certs, "ca.crt"))),
		"tmp/live.iso":       string(mustRead(t, fixtures.LiveISO(t))),
		"tmp/pod.yaml": fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"+
			"spec: {containers: [{name: a, image: %q}]}\n", pin),
		"tmp/mirrors.yaml": "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: a}\n" +
			"spec: {imageDigestMirrors: [{source: quay.io/a, mirrors: [quay.io/b]}]}\n",
		"tmp/auth.json":    `{"auths":{"quay.io":{"auth":"no base64"}}}`, // a copy without this entry is made
		"tmp/image.tar.gz": dockerArchive(t, first),
		// Files of other programs are not read, so they may be damaged.
		"etc/containers/storage.conf":    "[",
		"etc/containers/containers.conf": "[",
	}
}

// dockerArchive is an image as `docker save` writes it, compressed.
func dockerArchive(t *testing.T, img v1.Image) string {
	t.Helper()
	tag, err := name.NewTag("quay.io/site/app:1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "gzip", file)
	return string(mustRead(t, file+".gz"))
}

func (r emptyRoot) make(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	mount := func(options ...string) {
		fixtures.Run(t, "mount", options...)
		t.Cleanup(func() { fixtures.Run(t, "umount", options[len(options)-1]) })
	}
	if r.mountable {
		mount("--bind", dir, dir)
	}
	for _, sub := range []string{"tmp", "proc", "readonly", "dev", "etc/containers"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		syscall.ForkLock.RLock() // a child of another test would have the program open for writing until it is executed
		err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	mount("-t", "tmpfs", "-o", "ro", "tmpfs", filepath.Join(dir, "readonly"))
	if !r.noProc {
		mount("-t", "proc", "proc", filepath.Join(dir, "proc"))
	}
	if r.mountable {
		mount("--bind", "/dev", filepath.Join(dir, "dev"))
	}
	return dir
}

func (r emptyRoot) run(t *testing.T, dir string, v verb) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/pinbox", strings.Fields(v.line)...)
	cmd.Dir, cmd.Env = "/tmp", append([]string{"LANG=C", "GOGC=" + os.Getenv("GOGC")}, r.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: r.uid, Gid: r.uid}}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("pinbox %s: got %v", v.line, err)
	}
	code, output := fault.OK, v.output
	if i := slices.IndexFunc(v.needs, func(n need) bool { return n.missing(r) }); i >= 0 {
		code, output = v.needs[i].code, v.needs[i].output
	}
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), output) {
		t.Errorf("pinbox %s: got exit code %d, want %d and %q\n%s", v.line, got, code, output, out)
	}
	// The library would print it to stderr, besides pinbox's messages.
	if strings.Contains(string(out), "level=") {
		t.Errorf("pinbox %s: got a log of the library, want none:\n%s", v.line, out)
	}
}
