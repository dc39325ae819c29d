package wanted_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/runtime/wanted"
)

func TestMissed(t *testing.T) {
	now := start
	images := []wanted.Image{
		{Name: "quay.io/z:1", Last: now}, {Name: "quay.io/here:1", Last: now}, {Name: "quay.io/a:1", Last: now},
		{Name: "quay.io/old:1", Last: now.Add(-wanted.MaxAge - 1)}, {Name: "quay.io/month:1", Last: now.Add(-wanted.MaxAge)},
	}
	var got []string
	for _, img := range wanted.Missed(images, func(name string) bool { return name == "quay.io/here:1" }, now) {
		got = append(got, img.Name)
	}
	if want := []string{"quay.io/a:1", "quay.io/month:1", "quay.io/z:1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A record goes on where it ended; without one that can be read, the last day counts.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wanted.json")
	log := filepath.Join(t.TempDir(), "crio.log")
	anew := wanted.Record{Version: 1, Read: start.AddDate(0, 0, -1)}
	if got := wanted.Load(path, start); !cmp.Equal(got, anew) {
		t.Errorf("got %v without a file, want %v", got, anew)
	}
	if err := anew.Save(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("got a file with nothing in it, want none")
	}
	r := anew
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(log, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.ReadFile(log); err != nil {
			t.Fatal(err)
		}
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	write(pulls(-9, "Pulling", "quay.io/a:1", one))
	r = wanted.Load(path, start)
	write(pulls(-9, "Pulling", "quay.io/a:1", one), pulls(-8, "Pulling", "quay.io/a:1", two))
	r = wanted.Load(path, start)
	if len(r.Images) != 1 || r.Images[0].Times != 2 || !r.Read.Equal(at(-8)) {
		t.Errorf("got %+v, want two attempts", r)
	}
	if fi, err := os.Lstat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for its owner alone", fi, err)
	}
	if back := wanted.Load(path, at(-60)); !back.Read.Equal(at(-60)) {
		t.Errorf("got %v read, with a clock that was set back, want the time it says", back.Read)
	}
	r.Images = nil
	if err := r.Save(path); err != nil || len(wanted.Load(path, start).Images) != 0 {
		t.Errorf("got %v, want a record without images", err)
	}
	for name, text := range map[string]string{
		"damaged": `{"version":1,`, "newer": `{"version":2}`, "no name": `{"version":1,"images":[{"name":"A b"}]}`,
		"a pod": `{"version":1,"images":[{"name":"quay.io/a:1","pods":["\u001b[2J"]}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := wanted.Load(path, start); !cmp.Equal(got, anew) {
			t.Errorf("%s: got %v, want %v", name, got, anew)
		}
	}
}
