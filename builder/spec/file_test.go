package spec_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/spec"
)

// Each error of an appliance file has its line and column.
func TestPlacesOfErrors(t *testing.T) {
	const head = "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata:\n  name: a\nspec:\n"
	const good = head + "  sources:\n  - pinnedImageSets: [a.yaml]\n"
	for name, test := range map[string]struct {
		content string
		want    []string // LINE:COLUMN and how the text begins
	}{
		"no mapping": {"- a\n", []string{"1:1 got a list, want a mapping"}},
		"empty":      {"", []string{"0:0 it is empty"}},
		"syntax":     {head + "  sources: [\n", []string{"6:3 did not find expected node content"}},
		"unknown fields": {
			good + "  platfrom: linux/arm64\n  node: {store: {pth: /x, quirk: 1}}\n", []string{
				"8:3 field platfrom not found; did you mean platform?", "9:18 field pth not found; did you mean path?",
				"9:27 field quirk not found",
			},
		},
		"unknown source": {head + "  sources:\n  - pinedImageSets: [a]\n", []string{"7:5 field pinedImageSets not found"}},
		"wrong types":    {head + "  platform: [x]\n  sources: yes\n", []string{"6:13 got a list, want a text", "7:12 got a text, want a list"}},
		"duplicate":      {good + "  sources: []\n", []string{"8:3 mapping key \"sources\" already defined"}},
		"all that is wrong": {
			"apiVersion: v1\nkind: Appliance\nmetadata: {name: a, release: -1}\nspec:\n  platform: linux/z80\n  sources: []\n" +
				"  store:\n    compression: lzo\n", []string{
				"1:13 apiVersion is \"v1\"", "3:30 metadata.release -1", "5:13 spec.platform \"linux/z80\"", "6:3 spec.sources is empty",
				"8:18 spec.store.compression:",
			},
		},
		"missing":       {strings.Replace(good, "name: a", "release: 1", 1), []string{"3:1 metadata.name is missing"}},
		"missing below": {good + "  iso: {base: a.iso, mode: install}\n", []string{"8:3 spec.iso.installDevice is missing"}},
		"a long pool": {
			good + "  openshift: {version: \"4.20\", pools: [" + strings.Repeat("a", 64) + "]}\n",
			[]string{"8:40 spec.openshift.pools"},
		},
		"in a list":        {good + "  openshift: {version: \"4.20\", pools: [worker, A_B]}\n", []string{"8:48 spec.openshift.pools: \"A_B\""}},
		"value of a node":  {good + "  node:\n    store:\n      path: srv/store\n", []string{"10:13 spec.node: the node's store has the path"}},
		"number of a node": {good + "  node:\n    keepPrevious: -1\n", []string{"9:19 spec.node: keepPrevious is -1"}},
		"key":              {good + "  ignition:\n    sshAuthorizedKeys:\n    - a key\n", []string{"10:7 spec.ignition.sshAuthorizedKeys: SSH key 1"}},
		"source": {
			head + "  sources:\n  - {images: [a], imageLists: [b]}\n  - oci: [{name: x}]\n  - ocMirror: {stores: [x]}\n", []string{
				"7:5 spec.sources[0] has images and imageLists", "8:5 spec.sources[1] has no oci[0].path",
				"9:5 spec.sources[2] ocMirror has neither paths",
			},
		},
		"of all kinds": {
			"apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {namee: a, release: x}\nspec:\n  platform: linux/arm46\n" +
				"  sourcs:\n  - {images: {a: b}}\n  - {imagelist: [a], set: A}\n  - 7\n  store: {compression: zsdt, format: dri}\n" +
				"  iso: {mode: instal, existing: x, installDevice: [a]}\n  iso: {mode: live}\n" +
				"  openshift: {version: x, pools: [A], api: v2}\n  node: {keepPrevious: -1, store: {path: a, volumeLabel: b}}\n", []string{
				"3:12 field namee not found; did you mean name?", "3:31 got a text, want a number",
				"5:13 spec.platform \"linux/arm46\": CRI-O runs on linux/amd64, linux/arm64, linux/ppc64le, linux/riscv64, " +
					"linux/s390x; did you mean linux/arm64?",
				"6:3 field sourcs not found; did you mean sources?", "7:14 got a mapping, want a list",
				"8:6 field imagelist not found; did you mean imageLists?", "8:27 spec.sources[1] has the set or pool \"A\"",
				"9:5 got a number, want a mapping",
				"10:24 spec.store.compression: squashfs compression \"zsdt\": not zstd, gzip or none; did you mean zstd?",
				"10:38 spec.store.format is \"dri\"; it must be one of squashfs, dir; did you mean dir?",
				"11:3 spec.iso.base is missing",
				"11:15 spec.iso.mode is \"instal\"; it must be live, install or agent; did you mean install?",
				"11:33 spec.iso.existing is \"x\"", "11:51 got a list, want a text", "12:3 mapping key \"iso\" already defined at line 11",
				"13:24 spec.openshift.version", "13:35 spec.openshift.pools", "13:44 spec.openshift.api is \"v2\"; it must be v1 or v1alpha1",
				"14:3 spec.node: the node's store has more than one", "14:24 spec.node: keepPrevious is -1",
				"14:42 spec.node: the node's store has the path", "14:58 spec.node: the node's store has the volume label",
			},
		},
		"a key that the file has": {good + "  platform: linux/arm64\n  platfrom: x\n", []string{"9:3 field platfrom not found; did you mean platform?"}},
		"merged": {
			good + "  node: &n {keepPrevius: 1}\n  iso: {<<: {bas: x}}\n", []string{
				"8:13 field keepPrevius not found; did you mean keepPrevious?", "9:14 field bas not found; did you mean base?",
			},
		},
		"two documents": {good + "  platfrom: linux/amd64\n---\na: b\n", []string{"8:3 field platfrom not found", "9:4 more than one document"}},
		"anchor": {
			head + "  sources: &s\n  - pinnedImageSets: [a]\n  mirrors: &m [example.com]\n  insecureRegistries: *m\n  node: {store: {verity: maybe}}\n",
			[]string{"10:26 spec.node: "},
		},
		"tabs and other letters": {good + "  store: {\"compression\":\t\"é\u00fc\"}\n", []string{"8:26 spec.store.compression:"}},
		"Windows":                {strings.ReplaceAll(good+"  platfrom: linux/amd64\n", "\n", "\r\n"), []string{"8:3 field platfrom not found"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "appliance.yaml")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := spec.Read(file)
			var got spec.Problems
			if !errors.Is(err, spec.ErrAppliance) || !errors.As(err, &got) {
				t.Fatalf("got %v, want problems", err)
			}
			comparePlaces(t, got, test.want)
		})
	}
}

func comparePlaces(t *testing.T, got spec.Problems, want []string) {
	t.Helper()
	var places []string
	for i, p := range got {
		place := fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Message)
		if i < len(want) && strings.HasPrefix(place, want[i]) {
			place = want[i]
		}
		places = append(places, place)
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The line of an error stands below it, with a caret below the column: also with tabs, and letters of several bytes.
func TestErrorsShowTheirLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "appliance.yaml")
	text := "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: \"é\",\t\"rlease\": 1}\nspec: {sources: [{images: [a], set: a}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := spec.Read(file)
	want := "not a valid appliance file: " + file + ":3:23: field rlease not found; did you mean release?\n" +
		"    metadata: {name: \"é\",\t\"rlease\": 1}\n" +
		"                         \t^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// An error of a file that the appliance names has the place of its name; one of something else has none.
func TestPlacesOfFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "appliance.yaml")
	text := "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\nspec:\n  sources:\n" +
		"  - pinnedImageSets: [a.yaml, ./b/a.yaml, /srv/a.yaml]\n  - {images: [x], set: a}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := spec.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	missing := &fs.PathError{Op: "open", Path: "/srv/a.yaml", Err: fs.ErrNotExist}
	got := f.Problems(errors.Join(
		fmt.Errorf("%s:7: not a set", filepath.Join(dir, "a.yaml")), fmt.Errorf("lstat %s/b/a.yaml: no such file", dir),
		errors.Join(missing, errors.New("the rest")), fmt.Errorf("%s/c.yaml: %w", dir, missing), fmt.Errorf("%s.old: no", filepath.Join(dir, "a.yaml")),
		fmt.Errorf("/mnt%s/a.yaml: no", dir),
	))
	var places []string
	for _, p := range got {
		places = append(places, fmt.Sprintf("%d:%d", p.Line, p.Column))
	}
	if got, want := strings.Join(places, " "), "0:0 0:0 0:0 6:23 6:31 6:43 6:43"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !errors.Is(got[5], fs.ErrNotExist) {
		t.Errorf("got %v, want it to wrap the error of the file", got[5])
	}
}
