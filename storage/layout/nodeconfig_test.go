package layout_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

func TestNodeConfigGolden(t *testing.T) {
	want := layout.NodeConfig{
		ReleaseID: pinset.ReleaseID{Name: "factory-12", Number: 7}, Store: digest.FromString("store"),
		KeepPrevious: 2, SELinuxContext: "system_u:object_r:container_ro_file_t:s0",
	}
	fixtures.Golden(t, "node.json", want.Render())
	want.Version = 1
	got, err := layout.ReadNodeConfig(filepath.Join(fixtures.Root(t), "fixtures/golden/node.json"))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// A node that was not installed from an appliance does not have the file.
func TestNodeConfigOfOtherNodes(t *testing.T) {
	got, err := layout.ReadNodeConfig(filepath.Join(t.TempDir(), "node.json"))
	if want := (layout.NodeConfig{Version: 1, KeepPrevious: 1}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestReadNodeConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.json")
	for content, want := range map[string]struct {
		config layout.NodeConfig
		err    string // "" for a good file
	}{
		`{"version": 1}`:                        {layout.NodeConfig{Version: 1, KeepPrevious: 1}, ""},
		`{"version": 1, "keepPrevious": 0}`:     {layout.NodeConfig{Version: 1}, ""},
		`{"version": 1, "selinuxContext":"a"}`:  {layout.NodeConfig{Version: 1, KeepPrevious: 1, SELinuxContext: "a"}, ""},
		`{"version": 1, "keepPrevious": -1}`:    {layout.NodeConfig{}, "keepPrevious is -1; it must be 0 or more"},
		`{"version": 1, "selinuxContext":"\""}`: {layout.NodeConfig{}, "selinuxContext is"},
		`{"version": 1, "verity": "require"}`: {
			layout.NodeConfig{Version: 1, KeepPrevious: 1, Verity: layout.VerityRequire}, "",
		},
		`{"version": 1, "verity": "on"}`: {
			layout.NodeConfig{}, `verity is "on"; it must be auto, require or off`,
		},
		`{"version": 1, "pins": "on"}`:         {layout.NodeConfig{}, `pins is "on"; it must be operator or node`},
		`{"version": 1, "sets": "none"}`:       {layout.NodeConfig{}, `sets is "none"; it must be required or optional`},
		`{"version": 1, "imageVolumes": "on"}`: {layout.NodeConfig{}, `imageVolumes is "on"; it must be report or copy`},
		`{"version": 1, "name": "a\"b"}`:       {layout.NodeConfig{}, "quotes, backslashes or control characters"},
		`{"version": 1, "release": -1}`:        {layout.NodeConfig{}, "release -1: negative"},
		`{"version": 1, "store": "aaaa"}`:      {layout.NodeConfig{}, `store "aaaa"`},
		`{"version": 1, "keepPervious": 1}`:    {layout.NodeConfig{}, `unknown field "keepPervious"`},
		`{"version": 1, "keepPrevious": "1"}`:  {layout.NodeConfig{}, "cannot unmarshal string"},
		`{"version": 1} {"version": 1}`:        {layout.NodeConfig{}, "after top-level value"},
		`{"version": 2, "colour": "red"}`:      {layout.NodeConfig{}, "a newer pinbox made it, so update this one"},
		`{"keepPrevious": 0}`:                  {layout.NodeConfig{}, "no version; this pinbox reads version 1"},
		"":                                     {layout.NodeConfig{}, "unexpected end of JSON input"},
	} {
		t.Run(content, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := layout.ReadNodeConfig(file)
			if !reflect.DeepEqual(got, want.config) || (err == nil) != (want.err == "") {
				t.Fatalf("got %+v, %v, want %+v, %q", got, err, want.config, want.err)
			}
			if err != nil && (!strings.Contains(err.Error(), want.err) || !strings.Contains(err.Error(), file)) {
				t.Errorf("got %q, want an error with %q and the name of the file", err, want.err)
			}
		})
	}
}

// A configuration that can be read has values that a node can use.
func FuzzNodeConfig(f *testing.F) {
	f.Add([]byte(`{"version": 1, "keepPrevious": 2, "selinuxContext": "system_u:object_r:container_file_t:s0"}`))
	f.Add([]byte(`{"version": 1, "verity": "require"}`))
	file := filepath.Join(f.TempDir(), "node.json") // one for all inputs, which are tried one after the other
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := layout.ReadNodeConfig(file)
		if err == nil && (c.KeepPrevious < 0 || strings.ContainsAny(c.SELinuxContext, "\"\n\\")) {
			t.Errorf("got %+v", c)
		}
	})
}

// A setting of a call has the name and the value of the file.
func TestSetOfNodeConfig(t *testing.T) {
	minute := layout.Duration(time.Minute)
	for text, test := range map[string]struct {
		want layout.NodeConfig
		err  string
	}{
		"pools=worker,infra":    {layout.NodeConfig{Service: layout.Service{Pools: []string{"worker", "infra"}}}, ""},
		"reserve=0":             {layout.NodeConfig{Service: layout.Service{Reserve: &bytesize.Reserve{}}}, ""},
		"reserve=16Gi,10%":      {layout.NodeConfig{Service: layout.Service{Reserve: &bytesize.Reserve{Bytes: 16 << 30, Percent: 10}}}, ""},
		"rate=20MB/s":           {layout.NodeConfig{Service: layout.Service{Rate: 20_000_000}}, ""},
		"jitter=1m":             {layout.NodeConfig{Service: layout.Service{Jitter: &minute}}, ""},
		"prune=true":            {layout.NodeConfig{Service: layout.Service{Prune: true}}, ""},
		"nodeName=12":           {layout.NodeConfig{Machine: layout.Machine{NodeName: "12"}}, ""},
		"stateDir=/a=b,c":       {layout.NodeConfig{Machine: layout.Machine{StateDir: "/a=b,c"}}, ""},
		"keepPrevious=3":        {layout.NodeConfig{KeepPrevious: 3}, ""},
		"keepPrevious=-1":       {layout.NodeConfig{}, "must be 0 or more"},
		"parallel=-1":           {layout.NodeConfig{}, "must be 0 to"},
		"parallel=many":         {layout.NodeConfig{}, "parallel"},
		"rate=fast":             {layout.NodeConfig{}, "is not a rate"},
		"stall=soon":            {layout.NodeConfig{}, "is not a time"},
		"owner=nobody":          {layout.NodeConfig{}, "auto, pinbox or mco"},
		"colour=red":            {layout.NodeConfig{}, "unknown field"},
		"prune":                 {layout.NodeConfig{}, "NAME=VALUE"},
		`reserve", "prune=true`: {layout.NodeConfig{}, "unknown field"},
	} {
		var got layout.NodeConfig
		err := got.Set(text)
		if !reflect.DeepEqual(got, test.want) || (err == nil) != (test.err == "") ||
			err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: got %+v, %v, want %+v and %q", text, got, err, test.want, test.err)
		}
	}
}
