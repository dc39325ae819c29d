package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/fixtures"
)

// The whole life of a live ISO, as a user has it: build, verify, show, extract,
// reset; and two builds are equal.
func TestLiveISO(t *testing.T) {
	_, pins := fixtures.Samples(t)
	base := fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...)
	sets := write(t, "sets.yaml", pins.Sets())
	build := func(out string, more ...string) (int, string, string) {
		return pinbox(t.Context(), append([]string{"build", "--set", sets, "--tls-verify=false", "--node-binary", fixtures.Program(t, nodePackage), "-o", out, "--iso", base}, more...)...)
	}
	dir := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := build(dir, "--kargs-append", "console=ttyS0", "--kargs-replace", "coreos.liveiso=test=other")
	image := filepath.Join(dir, "appliance.iso")
	if code != 0 || !strings.Contains(stdout, image+"   boots with both") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, what := range []string{dir, image} {
		if code, stdout, stderr := pinbox(t.Context(), "verify", what); code != 0 || !strings.Contains(stdout, "is whole") || !strings.Contains(stdout, "5 images") {
			t.Errorf("verify %s: exit code %d\n%s%s", what, code, stdout, stderr)
		}
	}
	var info iso.Info
	code, stdout, stderr = pinbox(t.Context(), "iso", "show", image, "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &info); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if info.Label != "test" || info.Kargs.Current != "coreos.liveiso=other ignition.firstboot console=ttyS0" || info.Kargs.Default != fixtures.LiveKargs ||
		len(info.Added) != 4 || len(info.Ignition.Members) != 1 || !bytes.Contains(info.Features, []byte("installer-config")) {
		t.Errorf("%+v", info)
	}
	_, stdout, _ = pinbox(t.Context(), "iso", "show", image)
	for name, label := range map[string]string{"store.squashfs": "pinbox/store.squashfs", "pinbox.lock.json": "pinbox/lock.json", "config.ign": "  config.ign"} {
		digest := fmt.Sprintf("%x", sum(t, filepath.Join(dir, name)))
		if !regexp.MustCompile(`(?m)^` + label + ` .*sha256:` + digest + `$`).MatchString(stdout) {
			t.Errorf("no %s with %s:\n%s", label, digest, stdout)
		}
	}
	if !strings.Contains(stdout, `{"installer-config":true}`) {
		t.Errorf("no features:\n%s", stdout)
	}
	for flag, file := range map[string]string{"--ignition": "config.ign", "--store": "store.squashfs", "--lock": "pinbox.lock.json"} {
		want, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := pinbox(t.Context(), "iso", "extract", image, flag); code != 0 || stdout != string(want) {
			t.Errorf("%s: exit code %d, %d bytes of %d\n%s", flag, code, len(stdout), len(want), stderr)
		}
	}
	medium := filepath.Join(t.TempDir(), "medium.iso")
	if code, _, stderr := pinbox(t.Context(), "medium", dir, "-o", medium); code != 0 {
		t.Errorf("medium: exit code %d\n%s", code, stderr)
	}
	if code, stdout, stderr := pinbox(t.Context(), "verify", medium); code != 0 || !strings.Contains(stdout, "2 files, 5 images") {
		t.Errorf("verify of the medium: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ := pinbox(t.Context(), "iso", "show", medium); code != 0 || !strings.Contains(stdout, "PINBOX") || strings.Contains(stdout, "Ignition") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	pristine := filepath.Join(t.TempDir(), "pristine.iso")
	if code, _, stderr := pinbox(t.Context(), "iso", "reset", image, "-o", pristine); code != 0 || sum(t, pristine) != sum(t, base) {
		t.Errorf("reset: exit code %d\n%s", code, stderr)
	}
	again := filepath.Join(t.TempDir(), "out")
	if code, _, stderr := build(again, "--kargs-append", "console=ttyS0", "--kargs-replace", "coreos.liveiso=test=other"); code != 0 || sum(t, filepath.Join(again, "appliance.iso")) != sum(t, image) {
		t.Errorf("a second build: exit code %d\n%s", code, stderr)
	}
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(content)
}

// Whatever is wrong with a base is said before anything is fetched: here there
// is no registry at all.
func TestLiveISOsThatCannotBeUsed(t *testing.T) {
	set := write(t, "set.yaml", []byte(`apiVersion: machineconfiguration.openshift.io/v1
kind: PinnedImageSet
metadata:
  name: s
spec:
  pinnedImages:
  - name: 127.0.0.1:1/x@sha256:`+strings.Repeat("0", 64)+"\n"))
	base := fixtures.LiveISO(t, fixtures.LiveISOs["Rock Ridge"]...)
	content, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	configured, edited := filepath.Join(t.TempDir(), "configured.iso"), filepath.Join(t.TempDir(), "edited.iso")
	for out, e := range map[string]iso.Edit{configured: {Ignition: []byte("{}")}, edited: {}} {
		if err := iso.Apply(t.Context(), base, out, e); err != nil {
			t.Fatal(err)
		}
	}
	program := fixtures.Program(t, nodePackage)
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no such file":     {[]string{"--iso", "/no/such.iso"}, exitInput, "no such file"},
		"no ISO":           {[]string{"--iso", program}, exitInput, "not an ISO 9660 image"},
		"cut off":          {[]string{"--iso", write(t, "cut.iso", content[:len(content)/2])}, exitInput, "the image is incomplete"},
		"no Ignition":      {[]string{"--iso", write(t, "none.iso", bytes.ReplaceAll(bytes.ReplaceAll(content, []byte("igninfo.json"), []byte("igninfo.jso_")), []byte("ignition.img"), []byte("ignition.im_")))}, exitInput, "no Ignition area"},
		"edited before":    {[]string{"--iso", edited}, exitInput, "pinbox iso reset"},
		"configured":       {[]string{"--iso", configured, "--force"}, exitInput, "pinbox iso reset"},
		"no such karg":     {[]string{"--iso", base, "--kargs-delete", "quiet"}, exitInput, `there is no "quiet"`},
		"kargs too long":   {[]string{"--iso", base, "--kargs-append", strings.Repeat("x", 600)}, exitInput, "longer than the area"},
		"broken igninfo":   {[]string{"--iso", write(t, "igninfo.iso", bytes.Replace(content, []byte(`{"file":"images`), []byte(`{"file":images"`), 1))}, exitInput, "coreos/igninfo.json"},
		"verify of a base": {nil, exitInput, ""},
	} {
		out := filepath.Join(t.TempDir(), "out")
		args := append([]string{"build", "--set", set, "--tls-verify=false", "--node-binary", program, "-o", out}, test.args...)
		if test.args == nil {
			args = []string{"verify", base}
		}
		code, _, stderr := pinbox(t.Context(), args...)
		if code != test.code || !strings.Contains(stderr, test.says) || !strings.Contains(stderr, "hint: ") {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: something was left behind", name)
		}
	}
}

// One byte of the store, the lock or the config: verify finds it in the ISO.
func TestVerifyFindsAChangedByteInAnISO(t *testing.T) {
	_, pins := fixtures.Samples(t)
	dir := filepath.Join(t.TempDir(), "out")
	code, _, stderr := pinbox(t.Context(), "build", "--set", write(t, "sets.yaml", pins.Sets()), "--tls-verify=false", "--node-binary", fixtures.Program(t, nodePackage),
		"-o", dir, "--iso", fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...))
	if code != 0 {
		t.Fatal(stderr)
	}
	content, err := os.ReadFile(filepath.Join(dir, "appliance.iso"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := os.ReadFile(filepath.Join(dir, "store.squashfs"))
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int{
		"store.squashfs": bytes.Index(content, store[:4096]) + len(store)/2,
		"lock.json":      bytes.Index(content, []byte(`"platform": "linux/amd64"`)) + 3,
	} {
		bad := bytes.Clone(content)
		bad[at] ^= 1
		code, _, stderr := pinbox(t.Context(), "verify", write(t, "bad.iso", bad))
		if code != exitVerify || !strings.Contains(stderr, name+" has changed") {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
		}
	}
	other := filepath.Join(t.TempDir(), "other.iso")
	if code, _, stderr := pinbox(t.Context(), "iso", "reset", filepath.Join(dir, "appliance.iso"), "-o", other); code != 0 {
		t.Fatal(stderr)
	}
}
