package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

func pin(name string) string {
	return "quay.io/x/" + name + "@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea"
}

// nodeOfCluster returns the options of a node that knows this of its cluster, unless its version is 0, and has sets of
// its own.
func nodeOfCluster(t *testing.T, k cluster.Known, managed bool) *Node {
	t.Helper()
	dir := t.TempDir()
	content, err := json.Marshal(k)
	files := map[string][]byte{
		"sets.d/a.yaml": sample.SetNamed("both", pin("a")), "sets.d/b.yaml": sample.SetNamed("own", pin("o")),
	}
	if k.Version > 0 {
		files[cluster.KnownFile] = content
	}
	if managed {
		files["machine-config-daemon/currentconfig"] = []byte("{}")
	}
	for name, content := range files {
		name = filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return Open(Settings{Set: []string{"setsDir=" + filepath.Join(dir, "sets.d"), "stateDir=" + dir, "crioDir=" + filepath.Join(dir, "crio")}})
}

// The sets of a node are those of its folder and those of its cluster; what is not known of the cluster is an error, so
// that nothing is unpinned.
func TestSetsOfTheFolderAndOfTheCluster(t *testing.T) {
	worker, infra := "worker", "infra"
	known := cluster.Known{
		Version: cluster.KnownVersion, State: cluster.Current, Since: time.Unix(1, 0), ResourceVersion: "9", Registered: true,
		Roles: []string{},
		Sets: []cluster.Set{
			{Name: "both", Generation: 4, Role: &worker, Images: []string{pin("b")}},
			{Name: "every", Generation: 1, Images: []string{pin("e")}},
			{Name: "infra", Generation: 1, Role: &infra, Images: []string{pin("i")}},
		},
	}
	const unknown, file = "not known yet", "set \"every\" of the cluster"
	for name, test := range map[string]struct {
		change  func(*cluster.Known)
		managed bool
		pools   []string
		want    string // names, revisions and the letters of the images
		err     string
	}{
		"worker":       {nil, false, nil, "both/4: a b; own: o; every/1: e", ""},
		"infra":        {func(k *cluster.Known) { k.Roles = []string{"infra"} }, false, nil, "both: a; own: o; every/1: e; infra/1: i", ""},
		"OpenShift":    {nil, true, nil, "both/4: a b; own: o", ""},
		"its pools":    {func(k *cluster.Known) { k.Registered = false }, false, []string{"infra"}, "both: a; own: o; every/1: e; infra/1: i", ""},
		"never listed": {func(k *cluster.Known) { k.ResourceVersion, k.Sets = "", nil }, false, nil, "both: a; own: o", unknown},
		"not registered": {func(k *cluster.Known) { k.Registered = false }, false, nil, "both: a; own: o; every/1: e",
			unknown},
		"not registered, no labels": {func(k *cluster.Known) { k.Registered, k.Sets = false, k.Sets[1:2] }, false, nil,
			"both: a; own: o; every/1: e", ""},
		"an image without a digest": {func(k *cluster.Known) { k.Sets[1].Images = []string{"quay.io/x/e"} }, false, nil,
			"both/4: a b; own: o", file},
		"unreadable": {func(k *cluster.Known) { k.Version = 2 }, false, nil, "both: a; own: o", "a newer pinbox made it"},
		"no cluster": {func(k *cluster.Known) { k.Version = 0 }, false, nil, "both: a; own: o", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := known
			k.Sets = append([]cluster.Set{}, known.Sets...)
			if test.change != nil {
				test.change(&k)
			}
			o := nodeOfCluster(t, k, test.managed)
			o.conf.Pools = test.pools
			sets, err := o.readSets()
			if got := describe(sets); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

func describe(sets []pinset.Set) string {
	var all []string
	for _, s := range sets {
		text := s.Name
		if s.Generation > 0 {
			text += fmt.Sprintf("/%d", s.Generation)
		}
		text += ":"
		for _, img := range s.Images {
			text += " " + img.Repository[len("quay.io/x/"):]
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// A node without sets is not ready, so that nothing is unpinned, unless an API has none for it, or it is meant to have
// none.
func TestNodeWithoutSets(t *testing.T) {
	listed := cluster.Known{
		Version: cluster.KnownVersion, State: cluster.Current, Since: time.Unix(1, 0), ResourceVersion: "9", Registered: true,
		Roles: []string{},
	}
	unlisted := listed
	unlisted.ResourceVersion = ""
	brought := stores.State{Version: stores.StateVersion, Releases: []stores.Release{
		{ReleaseID: pinset.ReleaseID{Name: "a"}}, {ID: digest.FromString("b"), Sets: map[string]string{"s.yaml": "s"}},
	}}
	removed := func(n *Node) error { return os.RemoveAll(n.conf.SetsDir) }
	optional := func(n *Node) error {
		return os.WriteFile(n.s.Config, layout.NodeConfig{Sets: layout.SetsOptional}.Render(), 0o644)
	}
	for name, test := range map[string]struct {
		known   cluster.Known
		managed bool
		state   stores.State
		change  func(*Node) error
		want    error // nil for none
	}{
		"never had any":                      {want: runtime.ErrNoSets},
		"had those of a store":               {state: brought, want: runtime.ErrNoSets},
		"without the folder":                 {change: removed, want: runtime.ErrNoSets},
		"of another pool":                    {change: otherPool, want: runtime.ErrNoSets},
		"meant to have none":                 {state: brought, change: optional},
		"meant to have none, and no folder":  {change: func(n *Node) error { return errors.Join(removed(n), optional(n)) }},
		"of an API with none":                {known: listed},
		"of an API, and had those of stores": {known: listed, state: brought, want: runtime.ErrNoSets},
		"of an API that is not known":        {known: unlisted, change: optional, want: errNotKnown},
		"of an API that is asked first":      {change: func(n *Node) error { n.s.Set = append(n.s.Set, "kubeconfig=k"); return nil }},
		"of the operator":                    {managed: true, state: brought},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeOfCluster(t, test.known, test.managed)
			n.s.Config = filepath.Join(n.conf.StateDir, "node.json")
			state, err := json.Marshal(test.state)
			dir := filepath.Join(n.conf.StateDir, layout.AttachedDir)
			err = errors.Join(err, os.RemoveAll(n.conf.SetsDir), os.MkdirAll(n.conf.SetsDir, 0o755))
			if test.state.Version > 0 {
				err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, layout.StateFile), state, 0o600))
			}
			if test.change != nil {
				err = errors.Join(err, test.change(n))
			}
			if err != nil {
				t.Fatal(err)
			}
			if sets, err := n.reopen().readSets(); !errors.Is(err, test.want) || len(sets) > 0 {
				t.Errorf("got %v, %v, want no sets and %v", sets, err, test.want)
			}
		})
	}
}

// otherPool gives a node only a set of another pool.
func otherPool(n *Node) error {
	n.s.Set = append(n.s.Set, "pools=worker")
	text := strings.Replace(string(sample.SetNamed("s", pin("a"))), "metadata:", "metadata:\n  labels:\n    "+
		pinset.RoleLabel+": infra", 1)
	return os.WriteFile(filepath.Join(n.conf.SetsDir, "s.yaml"), []byte(text), 0o644)
}
