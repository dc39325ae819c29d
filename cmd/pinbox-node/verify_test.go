package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// `verify` has exit code 0 for a store that is whole. Once a byte has changed it has 4, and names the layer
// and its image; the other layers are read too.
func TestVerifyTheAppliancesStore(t *testing.T) {
	fixtures.NeedRoot(t)
	registry, _ := appliance.Registry(t)
	pin, other := push(t, registry, "app/a", 100_000), push(t, registry, "app/b", 200_000)
	o := appliance.Options(t, sample.SetNamed("s", pin, other))
	o.Appliance.Spec.Store.Compression = squashfs.None
	store := filepath.Join(o.Out, appliance.Build(t, o).Store)
	state := t.TempDir()
	slot := filepath.Join(state, "stores/0")
	if err := os.MkdirAll(slot, 0o755); err != nil {
		t.Fatal(err)
	}
	verify := func(code int, args ...string) (out, progress string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{"verify", "--set=stateDir=" + state, "--set=crioDir=" + state, "--set=setsDir=" + state}, args...)
		if got := run(t.Context(), args, &stdout, &stderr); got != code {
			t.Fatalf("%v: got exit code %d, want %d\n%s%s", args, got, code, &stdout, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	if out, _ := verify(fault.OK); out != "no store is mounted\n" {
		t.Errorf("got %q, want that no store is mounted", out)
	}
	fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro,loop", store, slot)
	defer fixtures.Run(t, "umount", slot)
	out, progress := verify(fault.OK)
	if !regexp.MustCompile(`^read 2 of 2 layers, (\d.*) of (\d.*), in 1 stores\n$`).MatchString(out) ||
		!strings.Contains(progress, "read layers again") {
		t.Errorf("got %q and the progress %q", out, progress)
	}
	out, _ = verify(fault.OK, "--sample", "1%", "--seed", "7")
	if again, _ := verify(fault.OK, "--sample", "1%", "--seed", "7"); again != out ||
		!strings.HasPrefix(out, "read 1 of 2 layers") || !strings.Contains(out, "chosen by --seed 7") {
		t.Errorf("got %q and %q, want 1 layer of the seed 7", out, again)
	}
	for _, sample := range []string{"0%", "101%", "NaN", "x"} {
		verify(fault.Usage, "--sample", sample)
	}

	changeByte(t, store, filepath.Join(slot, "overlay/*/diff/data/0-100000"))
	out, _ = verify(fault.Damaged)
	if !strings.Contains(out, "slot 0: ") || !strings.Contains(out, "in the image "+pin+"\n") ||
		strings.Contains(out, other) || !strings.Contains(out, "read 2 of 2 layers") {
		t.Errorf("got %q, want a damaged layer of %s alone", out, pin)
	}
	out, progress = verify(fault.Damaged, "--output", "json")
	var v verified
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Damaged) != 1 || v.Damaged[0].Slot != "0" || v.Damaged[0].Layer == "" || v.Damaged[0].Error == "" ||
		len(v.Damaged[0].Images) != 1 || v.Damaged[0].Images[0] != pin || v.Layers != 2 || v.ReadBytes != v.Bytes ||
		v.Sample != "100%" || v.Seed == 0 {
		t.Errorf("got %+v, want a damaged layer of %s", v, pin)
	}
	if !strings.Contains(progress, `"exitCode":4`) {
		t.Errorf("got %s on stderr, want the error", progress)
	}
}

// changeByte changes a byte of a file of a store in the file of the store.
func changeByte(t *testing.T, store, pattern string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v, want one file", found, err)
	}
	content, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(all, content[:4096])
	if at < 0 {
		t.Fatalf("got no %s in the store", found[0])
	}
	f, err := os.OpenFile(store, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{all[at] ^ 1}, int64(at)); err != nil {
		t.Fatal(err)
	}
}
