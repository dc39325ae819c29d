package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// dirBuild is a command of the built program that builds a folder, in a place of the
// user's own, of an image that has a device and deletes a directory.
func dirBuild(t *testing.T, uid uint32) (cmd *exec.Cmd, out string, requests *atomic.Int32) {
	t.Helper()
	fixtures.NeedRoot(t)
	requests = &atomic.Int32{}
	registry := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			next.ServeHTTP(w, r)
		})
	})
	pin := push(t, registry, image(t, "amd64", layer(t, sample.File("d/a", "x")),
		layer(t, sample.Opaque("d"), sample.File("d/b", "y"))))
	requests.Store(0)
	home := t.TempDir()
	for name, content := range map[string]string{
		"sets.yaml": string(sample.Set("worker", pin)),
		"appliance.yaml": "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata:\n  name: a\nspec:\n  sources:\n" +
			"  - pinnedImageSets: [sets.yaml]\n  store: {format: dir}\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(home, "pinbox")
	fixtures.Run(t, "cp", fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), program)
	fixtures.Run(t, "cp", nodeProgram, program+"-node")
	fixtures.Run(t, "chmod", "0755", home, filepath.Dir(home))
	if err := os.Chown(home, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(home, "out")
	cmd = exec.Command(program, "build", "-c", filepath.Join(home, "appliance.yaml"), "--insecure-registry=127.0.0.1", "--no-cache",
		"--output", "json", "-o", out)
	cmd.Env = append(os.Environ(), "HOME="+home)
	return cmd, out, requests
}

// The program as it is shipped, without C, calls itself to unpack layers.
func TestDirByTheProgram(t *testing.T) {
	cmd, out, _ := dirBuild(t, 0)
	stdout, stderr, code := runProgram(t, cmd)
	var result builder.Result
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != fault.OK ||
		result.Store != layout.StoreDir || result.StoreDigest != "" || result.StoreSize == 0 {
		t.Errorf("got exit code %d, want %d, %v\n%s%s", code, fault.OK, err, stdout, stderr)
	}
	for _, w := range result.Warnings {
		if strings.Contains(w, "namespace") {
			t.Error(w)
		}
	}
	code, stdout, stderr = pinbox(t.Context(), "verify", out)
	if code != fault.OK || !strings.Contains(stdout, "in a store of ") || strings.Contains(stdout, "sha256:") {
		t.Errorf("verify: got exit code %d, want %d and %q\n%s%s", code, fault.OK, "in a store of ", stdout, stderr)
	}
}

// Another user is told so before anything is done, and what to do instead.
func TestDirNeedsRoot(t *testing.T) {
	cmd, out, requests := dirBuild(t, 65534)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	_, stderr, code := runProgram(t, cmd)
	if code != fault.Usage || !strings.Contains(stderr, "takes root") || !strings.Contains(stderr, "ID 65534") ||
		!strings.Contains(stderr, "run it as root") {
		t.Errorf("got exit code %d, want %d\n%s", code, fault.Usage, stderr)
	}
	if _, err := os.Lstat(out); err == nil || requests.Load() > 0 {
		t.Errorf("got %v and %d requests, want nothing made and none", err, requests.Load())
	}
}

// The root of a user namespace gets a folder for that namespace, and is told so.
func TestDirInAUserNamespace(t *testing.T) {
	cmd, out, _ := dirBuild(t, 100_000)
	// as `podman unshare` has it
	cmd.Env = append(cmd.Env, "_CONTAINERS_USERNS_CONFIGURED=done", "_CONTAINERS_ROOTLESS_UID=100000")
	tmp := t.TempDir() // the library leaves a folder there
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	ids := []syscall.SysProcIDMap{{HostID: 100_000, Size: 65_536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids,
		GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{},
	}
	stdout, stderr, code := runProgram(t, cmd)
	if code != fault.OK || !strings.Contains(stdout, "written in a user namespace") {
		t.Fatalf("got exit code %d, want %d and %q\n%s%s",
			code, fault.OK, "written in a user namespace", stdout, stderr)
	}
	marked, err := filepath.Glob(filepath.Join(out, "store/overlay/*/diff/d/b"))
	if err != nil || len(marked) != 1 {
		t.Fatal(marked, err)
	}
	// The library marks the directory in user.overlay, which the warning is about.
	if _, err := syscall.Getxattr(filepath.Dir(marked[0]), "user.overlay.opaque", make([]byte, 8)); err != nil {
		t.Errorf("opaque attribute of the deleted directory: got %v", err)
	}
}
