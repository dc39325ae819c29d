package layout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/layout"
)

func TestNodeConfigGolden(t *testing.T) {
	want := layout.NodeConfig{KeepPrevious: 2, SELinuxContext: "system_u:object_r:container_ro_file_t:s0"}
	fixtures.Golden(t, "node.json", layout.RenderNodeConfig(want))
	got, err := layout.ReadNodeConfig(filepath.Join(fixtures.Root(t), "fixtures/golden/node.json"))
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// A node that pinbox has not built has no such file.
func TestNodeConfigOfOtherNodes(t *testing.T) {
	got, err := layout.ReadNodeConfig(filepath.Join(t.TempDir(), "node.json"))
	if err != nil || got != (layout.NodeConfig{KeepPrevious: 1}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadNodeConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.json")
	for content, want := range map[string]struct {
		config layout.NodeConfig
		says   string // "" for a good file
	}{
		`{}`:                                     {layout.NodeConfig{KeepPrevious: 1}, ""},
		`{"keepPrevious": 0}`:                    {layout.NodeConfig{}, ""},
		`{"selinuxContext": "a:b:c:s0"}`:         {layout.NodeConfig{KeepPrevious: 1, SELinuxContext: "a:b:c:s0"}, ""},
		`{"keepPrevious": -1}`:                   {layout.NodeConfig{}, "keepPrevious is -1; it is 0 or more"},
		`{"keepPervious": 1}`:                    {layout.NodeConfig{}, `unknown field "keepPervious"`},
		`{"keepPrevious": "all"}`:                {layout.NodeConfig{}, "cannot unmarshal string"},
		`{"keepPrevious": 0} {"keepPrevious":1}`: {layout.NodeConfig{}, "there is more"},
		"":                                       {layout.NodeConfig{}, "EOF"},
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := layout.ReadNodeConfig(file)
		if got != want.config || (err == nil) != (want.says == "") {
			t.Errorf("%s: %+v, %v", content, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%s: %v", content, err)
		}
	}
}
