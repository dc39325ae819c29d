package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
)

// The slots of storage.conf count, as CRI-O has them.
func TestSlotsOfStorageConf(t *testing.T) {
	root, slot := t.TempDir(), crio.Slots()[2]
	conf := filepath.Join(root, crio.StorageConf)
	if err := errors.Join(os.MkdirAll(filepath.Dir(conf), 0o755), os.WriteFile(conf,
		[]byte("[storage.options]\nadditionalimagestores = [\""+slot+"/\", \"/other\"]\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	n := Open(Settings{Set: []string{"crioDir=" + filepath.Join(root, "etc/crio"), "stateDir=" + root}})
	_, configured, others := n.slots()
	if err := n.crioErr; err != nil || len(configured) != 1 || filepath.Base(configured[0]) != "2" || !slices.Equal(others, []string{"/other"}) {
		t.Errorf("got the slots %v and the stores %v, %v, want slot 2 and /other", configured, others, err)
	}
}

func TestStoreThatIsNamedTwice(t *testing.T) {
	dir := t.TempDir()
	store, link := filepath.Join(dir, "store"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(store, 0o755), os.Symlink(store, link)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		options string
		twice   bool
	}{
		"once":              {"overlay.imagestore=" + store, false},
		"the same option":   {"overlay.imagestore=" + store + " overlay.imagestore=" + store, false},
		"another key":       {"overlay.imagestore=" + store + " imagestore=" + store, true},
		"a slash":           {"overlay.imagestore=" + store + " overlay.imagestore=" + store + "/", true},
		"a link":            {"overlay.imagestore=" + store + " overlay.imagestore=" + link, true},
		"two other folders": {"overlay.imagestore=" + store + " overlay.imagestore=" + dir, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := crio.Config{StorageOptions: strings.Fields(test.options)}
			if err := checkTwice(c.ImageStores()); errors.Is(err, ErrTwice) != test.twice {
				t.Errorf("got %v, want an error %v", err, test.twice)
			}
		})
	}
}

// From 1.35 on CRI-O ignores insecure_registries and uses TLS on loopback, so pinbox-node asks as CRI-O does.
func TestInsecureRegistriesOfCRIO(t *testing.T) {
	for release, want := range map[string][]string{"1.34.0": {"127.0.0.0/8", "10.0.0.1:5000"}, "1.35.0": nil} {
		t.Run(release, func(t *testing.T) {
			server := fakecri.Server{Name: "cri-o", Release: release}
			server.Start(t)
			client, err := cri.Dial(server.Socket)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			o := Open(Settings{Set: []string{"socket=" + server.Socket}})
			if got := o.insecure(t.Context(), client, crio.Config{Insecure: []string{"10.0.0.1:5000"}}); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
