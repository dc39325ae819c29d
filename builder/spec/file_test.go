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
		"no mapping":     {"- a\n", []string{"1:3 got a list, want a mapping"}},
		"empty":          {"", []string{"0:0 it is empty"}},
		"syntax":         {head + "  sources: [\n", []string{"6:3 did not find expected node content"}},
		"unknown fields": {good + "  platfrom: x\n  node: {store: {pth: /x}}\n", []string{"8:3 field platfrom not", "9:18 field pth not"}},
		"unknown source": {head + "  sources:\n  - pinedImageSets: [a]\n", []string{"7:5 field pinedImageSets not found"}},
		"wrong types":    {head + "  platform: [x]\n  sources: yes\n", []string{"6:3 got a list, want a text", "7:12 got a text, want a list"}},
		"duplicate":      {good + "  sources: []\n", []string{"8:3 mapping key \"sources\" already defined"}},
		"all that is wrong": {
			"apiVersion: v1\nkind: Appliance\nmetadata: {name: a, release: -1}\nspec:\n  platform: linux/z80\n  sources: []\n" +
				"  store:\n    compression: lzo\n", []string{
				"1:13 apiVersion is \"v1\"", "3:30 metadata.release -1", "6:3 spec.sources is empty", "5:13 spec.platform \"linux/z80\"",
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
		"anchor": {
			head + "  sources: &s\n  - pinnedImageSets: [a]\n  mirrors: &m [example.com]\n  insecureRegistries: *m\n  node: {store: {verity: maybe}}\n",
			[]string{"10:26 spec.node: "},
		},
		"tabs and other letters": {good + "  store: {\"compression\":\t\"é\u00fc\"}\n", []string{"8:26 spec.store.compression:"}},
		"Windows":                {strings.ReplaceAll(good+"  platfrom: x\n", "\n", "\r\n"), []string{"8:3 field platfrom not found"}},
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
	text := "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: \"é\",\t\"rlease\": 1}\nspec: {sources: [{images: [a]}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := spec.Read(file)
	want := "not a valid appliance file: " + file + ":3:23: field rlease not found\n" +
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
	if got, want := strings.Join(places, " "), "6:23 6:31 6:43 0:0 6:43 0:0 0:0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !errors.Is(got[2], fs.ErrNotExist) {
		t.Errorf("got %v, want it to wrap the error of the file", got[2])
	}
}
