package fleet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
)

// write writes a file.
func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Reports that nodes wrote, and lists of kubectl, are read together; the newest of a node counts.
func TestReportsOfAFolder(t *testing.T) {
	dir := t.TempDir()
	old := incomplete(func(r *fleet.Report) { r.Time = now.Add(-1e12) })
	for name, o := range map[string]fleet.Object{
		"a.json": fleet.NewObject("a", "", ready(nil)), "a-old.json": fleet.NewObject("a", "", old),
		"b.json": fleet.NewObject("b", "uid", incomplete(nil)),
	} {
		if err := o.Write(filepath.Join(dir, name), signature.Signer{}); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "list.json"), `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"pinbox.dev/v1alpha1",
		"kind":"NodeImageStatus","metadata":{"name":"c","uid":"1","creationTimestamp":null}}]}`)
	write(t, filepath.Join(dir, "notes.txt"), "no report")
	objects, _, err := fleet.Read([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := fleet.Summarize(fleet.Nodes(objects, nil, now), fleet.Query{Now: now})
	if err != nil || s.Nodes != 3 || s.Ready != 1 {
		t.Errorf("got %+v, %v, want one of three nodes", s, err)
	}
}

// Who has made a stick does not choose where root writes the report and its signature. A bug was a report that replaced
// a file behind a link.
func TestReportIsWrittenThroughNoLink(t *testing.T) {
	const content = "what stood there"
	secret, _ := fixtures.Key(t)
	key, err := signature.ReadSigner(secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	// link makes a link in the folder of reports to the file of the host.
	link := func(name string) func(stick, outside string) error {
		return func(stick, outside string) error {
			folder := filepath.Join(stick, "site", "reports")
			return errors.Join(os.MkdirAll(folder, 0o755),
				os.Symlink(filepath.Join(outside, "reports", "n.json"), filepath.Join(folder, name)))
		}
	}
	for name, make := range map[string]func(stick, outside string) error{
		"a folder above": func(stick, outside string) error { return os.Symlink(outside, filepath.Join(stick, "site")) },
		"the folder": func(stick, outside string) error {
			return errors.Join(os.Mkdir(filepath.Join(stick, "site"), 0o755),
				os.Symlink(filepath.Join(outside, "reports"), filepath.Join(stick, "site", "reports")))
		},
		"the report":         link("n.json"),
		"the signature":      link("n.json.sig"),
		"the file of before": link("n.json.new"),
	} {
		t.Run(name, func(t *testing.T) {
			stick, outside := t.TempDir(), t.TempDir()
			host := filepath.Join(outside, "reports", "n.json")
			if err := errors.Join(os.Mkdir(filepath.Dir(host), 0o755), os.WriteFile(host, []byte(content), 0o600),
				make(stick, outside)); err != nil {
				t.Fatal(err)
			}
			err := fleet.NewObject("n", "", ready(nil)).Write(filepath.Join(stick, "site", "reports", "n.json"), key)
			if refused := strings.Contains(name, "folder"); errors.Is(err, atomicfile.ErrLink) != refused ||
				!refused && err != nil {
				t.Errorf("got %v, want %v: %v", err, atomicfile.ErrLink, refused)
			}
			got, readErr := os.ReadFile(host)
			fi, statErr := os.Stat(host)
			if string(got) != content || errors.Join(readErr, statErr) != nil || fi.Mode() != 0o600 {
				t.Errorf("got %q, mode %v behind the link, %v; want %q and 0600", got, fi.Mode(),
					errors.Join(readErr, statErr), content)
			}
			if left, err := os.ReadDir(filepath.Dir(host)); err != nil || len(left) != 1 {
				t.Errorf("got the files %v behind the link, %v, want one", left, err)
			}
		})
	}
}

// Files that are no reports are refused, with the name of the file.
func TestFilesThatAreNoReports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	good := `{"apiVersion":"pinbox.dev/v1alpha1","kind":"NodeImageStatus","metadata":{"name":"a"},"status":{"bytesToGo":1}}`
	for name, content := range map[string]string{
		"empty": "", "no JSON": "x", "kind": `{"kind":"Pod"}`, "group": strings.Replace(good, "pinbox.dev/", "x/", 1),
		"name": strings.Replace(good, `"a"`, `"\u001b[2J"`, 1), "bytes": strings.Replace(good, `:1`, `:-1`, 1),
		"item": `{"kind":"List","items":[{}]}`, "field": strings.Replace(good, `:1`, `:"1"`, 1),
	} {
		write(t, file, content)
		if _, _, err := fleet.Read([]string{file}, nil); !errors.Is(err, fleet.ErrNotReport) ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want that it is refused", name, err)
		}
	}
	write(t, file, strings.Replace(good, "v1alpha1", "v9", 1))
	if _, _, err := fleet.Read([]string{file}, nil); !errors.Is(err, pinset.ErrNewer) {
		t.Errorf("got %v, want %v", err, pinset.ErrNewer)
	}
	write(t, file, good)
	if _, _, err := fleet.Read([]string{file}, nil); err != nil {
		t.Error(err)
	}
	if _, _, err := fleet.Read([]string{file + "x"}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that there is no file", err)
	}
}

// One broken file of a folder is a row of its own, and the others count. A report of a time that has not come is not
// the newest of its node, and is named. A pipe is no file. A bug was that a report of 2099 counted for ever.
func TestReportsOfOthers(t *testing.T) {
	dir := t.TempDir()
	report := func(name, file string, at time.Time, bytes int64) {
		t.Helper()
		r := ready(nil)
		r.Time, r.BytesToGo = at, bytes
		if err := fleet.NewObject(name, "", r).Write(filepath.Join(dir, file), signature.Signer{}); err != nil {
			t.Fatal(err)
		}
	}
	report("a", "a1.json", now, math.MaxInt64)
	report("a", "a2.json", now.AddDate(70, 0, 0), 1)
	report("b", "b.json", now.AddDate(70, 0, 0), math.MaxInt64)
	report("c", "c.json", now.Add(30*time.Minute), 1)
	write(t, filepath.Join(dir, "d.json"), "{")
	objects, broken, err := fleet.Read([]string{dir}, nil)
	if err != nil || len(broken) != 1 {
		t.Fatalf("got %v, %v, want one broken file", broken, err)
	}
	s, err := fleet.Summarize(fleet.Nodes(objects, broken, now), fleet.Query{Now: now})
	reasons := map[string]string{}
	for _, r := range s.NotReady {
		reasons[r.Reason] = r.Nodes[0].Node
	}
	want := map[string]string{fleet.Ahead: "b", fleet.Unreadable: filepath.Join(dir, "d.json")}
	if err != nil || !maps.Equal(reasons, want) || !slices.Equal(s.ReadyNodes, []string{"a", "c"}) ||
		s.BytesToGo != math.MaxInt64 {
		t.Errorf("got %v not ready, %v ready, %d bytes to go, %v; want %v", reasons, s.ReadyNodes, s.BytesToGo, err, want)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fleet.Read([]string{pipe}, nil); !errors.Is(err, input.ErrNotRegular) {
		t.Errorf("a pipe: got %v, want %v", err, input.ErrNotRegular)
	}
}

// A list of millions of empty objects takes little more memory than its text. A bug was 90 times as much.
func TestListOfEmptyObjects(t *testing.T) {
	text := []byte(`{"kind":"List","items":[` + strings.Repeat("{},", 1<<20) + `{}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := fleet.Decode(text)
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); !errors.Is(err, fleet.ErrNotReport) || got > 10 {
		t.Errorf("got %d bytes for each byte, %v; want at most 10, and %v", got, err, fleet.ErrNotReport)
	}
}

// The lists within a report, and all reports together, have limits: a value of two bytes takes a hundred in memory.
func TestReportsHaveABudget(t *testing.T) {
	object := func(node, status string) string {
		return `{"apiVersion":"pinbox.dev/v1alpha1","kind":"NodeImageStatus","metadata":{"name":"` + node + `"},"status":{` +
			status + `}}`
	}
	list := func(element string, n int) string { return `"` + element + `":[` + strings.Repeat("{},", n) + `{}]` }
	var many []string
	for i := range 20_001 {
		many = append(many, object(fmt.Sprint("n", i), ""))
	}
	for what, text := range map[string]string{
		"conditions": object("a", list("conditions", 1<<20)),
		"sets":       `{"kind":"List","items":[` + object("a", list("sets", 1<<20)) + `]}`,
		"nodes":      `{"kind":"List","items":[` + strings.Join(many, ",") + `]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := fleet.Decode([]byte(text))
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; !errors.Is(err, fleet.ErrNotReport) || got > 50 {
			t.Errorf("%s: got %d MiB, %v; want at most 50, and %v", what, got, err, fleet.ErrNotReport)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(dir, name+".json"), object(name, list("sets", 400_000)))
	}
	objects, broken, err := fleet.Read([]string{dir}, nil)
	if err != nil || len(objects) != 2 || !strings.Contains(fmt.Sprint(broken), "elements") {
		t.Errorf("got %d objects, %v, %v; want two, and a file beyond the budget", len(objects), broken, err)
	}
}

// With a key, a file without a good signature is not read, whatever is in it.
func TestSignedReports(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.json")
	secret, pub := fixtures.Key(t)
	keys, err := fleet.ReadKeys(pub)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.ReadSigner(secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, "not even JSON")
	if _, _, err := fleet.Read([]string{file}, keys); !errors.Is(err, signature.ErrUnsigned) {
		t.Errorf("unsigned: got %v, want that it is refused", err)
	}
	if err := fleet.NewObject("a", "", ready(nil)).Write(file, signer); err != nil {
		t.Fatal(err)
	}
	if objects, _, err := fleet.Read([]string{dir}, keys); err != nil || len(objects) != 1 {
		t.Errorf("got %v, %v, want a report", objects, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(bytes.Replace(content, []byte(`"ready": true`), []byte(`"ready":  true`), 1)))
	if _, _, err := fleet.Read([]string{file}, keys); !errors.Is(err, signature.ErrInvalid) {
		t.Errorf("changed: got %v, want that it is refused", err)
	}
}

// A report makes no lines of its own, and no escape sequences, whatever prints it.
func TestReportsHaveNoLines(t *testing.T) {
	report := &fleet.Report{
		Sets: []fleet.SetReport{{Name: "a\n9 of 9 nodes are ready"}}, Failures: []fleet.Failure{{Class: "x\n", Image: "\u001b[1m", Error: "\r"}},
		Errors: []string{"a\nb"}, Stores: []fleet.StoreReport{{Name: "s\n"}}, Kept: []string{"k\n"}, Pools: []string{"p\n"},
	}
	one, err := json.Marshal(fleet.NewObject("a", "", report))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"one": string(one), "a list": `{"kind":"List","items":[` + string(one) + `]}`} {
		objects, err := fleet.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(content); strings.Contains(got, `\n`) || strings.Contains(got, `\u001b`) || strings.Contains(got, `\r`) {
			t.Errorf("%s: got %s, want printable characters", name, got)
		}
	}
}

// Nothing of a folder of reports is left out unseen: two reports in one file and a link are told, in one line each,
// whatever the names of the files. A bug was that only the first report of a file counted, and links did not.
func TestNothingOfAFolderIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	report, err := json.Marshal(fleet.NewObject("a", "", ready(nil)))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"a.json": string(report) + "\n", "two.json": string(report) + string(report), "more.json": string(report) + "]",
		"x\n1 of 1 nodes are ready\n.json": "{",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	if err := os.Symlink(filepath.Join(dir, "a.json"), filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	objects, broken, err := fleet.Read([]string{dir}, nil)
	if err != nil || len(objects) != 1 {
		t.Errorf("got %d reports, %v, want one", len(objects), err)
	}
	for name, want := range map[string]error{
		"two.json": fleet.ErrNotReport, "more.json": fleet.ErrNotReport, "link.json": input.ErrNotRegular,
		"x 1 of 1 nodes are ready .json": fleet.ErrNotReport,
	} {
		got := broken[filepath.Join(dir, name)]
		if !errors.Is(got, want) || strings.Contains(got.Error(), "\n") {
			t.Errorf("%s: got %v, want %v in one line", name, got, want)
		}
		delete(broken, filepath.Join(dir, name))
	}
	if len(broken) > 0 {
		t.Errorf("got also %v", broken)
	}
}

// With a folder of keys, a node reports for itself and for no other: a stick of one ship said that another one is
// ready.
func TestKeysOfNodes(t *testing.T) {
	keys, reports := t.TempDir(), t.TempDir()
	signers := map[string]signature.Signer{}
	for _, name := range []string{"ship-1", "yard-*", "unused"} {
		secret, pub := fixtures.Key(t)
		content, err := os.ReadFile(pub)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(keys, name+".pub"), string(content))
		if signers[name], err = signature.ReadSigner(secret, nil); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(keys, "README"), "no key")
	trusted, err := fleet.ReadKeys(keys)
	if err != nil || len(trusted) != 3 {
		t.Fatalf("got %d keys, %v, want 3", len(trusted), err)
	}
	for name, c := range map[string]struct {
		node, by string
		want     error
	}{
		"its own":                    {"ship-1", "ship-1", nil},
		"one of a pattern":           {"yard-7.example.com", "yard-*", nil},
		"another node":               {"ship-2", "ship-1", fleet.ErrOtherNode},
		"a node that begins like it": {"ship-10", "ship-1", fleet.ErrOtherNode},
		"a node of no key":           {"plant", "yard-*", fleet.ErrOtherNode},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(reports, c.node+".json")
			if err := fleet.NewObject(c.node, "", ready(nil)).Write(file, signers[c.by]); err != nil {
				t.Fatal(err)
			}
			if _, _, err := fleet.Read([]string{file}, trusted); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	for name, file := range map[string]string{"no key": "README", "no pattern": "[.pub"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, file), "")
			if got, err := fleet.ReadKeys(dir); !errors.Is(err, signature.ErrKey) {
				t.Errorf("got %v, %v, want %v", got, err, signature.ErrKey)
			}
		})
	}
}

// FuzzDecode: what can be decoded can be summarized.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"pinbox.dev/v1alpha1","kind":"NodeImageStatus","metadata":{"name":"a"},"status":{"sets":[{"name":"s"}]}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		objects, err := fleet.Decode(content)
		if err != nil {
			return
		}
		if s, err := fleet.Summarize(fleet.Nodes(objects, nil, now), fleet.Query{Now: now}); err == nil && s.Ready > s.Nodes {
			t.Errorf("got %d ready of %d", s.Ready, s.Nodes)
		}
	})
}

// Reports are told from what else `pinbox delta --from` takes: appliances, locks and media.
func TestIsReports(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"reports", "appliance", "empty"} {
		if err := os.Mkdir(path(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o := fleet.NewObject("a", "", ready(nil))
	o.Content = []pinset.StoreContent{{
		Base: pinset.Base{Lock: digest.FromString("l")}, Platform: "linux/amd64", Wish: digest.FromString("w"),
	}}
	if err := o.Write(path("reports/a.json"), signature.Signer{}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := fleet.Read([]string{path("reports")}, nil); err != nil || len(got) != 1 || len(got[0].Content) != 1 {
		t.Errorf("got %+v, %v, want the content of a store", got, err)
	}
	write(t, path("reports/SHA256SUMS.txt"), "")
	write(t, path("list.json"), `{"apiVersion":"v1","kind":"List","items":[]}`)
	write(t, path("pinbox.lock.json"), `{"version":1,"platform":"linux/amd64"}`)
	write(t, path("appliance/pinbox.lock.json"), `{"version":1}`)
	write(t, path("appliance/delta.json"), `{"apiVersion":1}`)
	write(t, path("appliance/SHA256SUMS"), "")
	write(t, path("store.iso"), "\x00")
	for name, want := range map[string]bool{
		"reports": true, "reports/a.json": true, "list.json": true, "appliance": false, "pinbox.lock.json": false,
		"store.iso": false, "empty": false, "none": false,
	} {
		if got := fleet.IsReports(path(name)); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for what, change := range map[string]func(*pinset.StoreContent){
		"a layer":    func(s *pinset.StoreContent) { s.Layers = []pinset.StoredLayer{{ID: "../x"}} },
		"a platform": func(s *pinset.StoreContent) { s.Platform = "\x1b" },
	} {
		bad := o
		bad.Content = []pinset.StoreContent{o.Content[0]}
		change(&bad.Content[0])
		if err := bad.Write(path("list.json"), signature.Signer{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := fleet.Read([]string{path("list.json")}, nil); !errors.Is(err, fleet.ErrNotReport) {
			t.Errorf("%s: got %v, want %v", what, err, fleet.ErrNotReport)
		}
	}
}
