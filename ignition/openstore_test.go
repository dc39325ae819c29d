package ignition_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/verity"
)

// openStore runs the script of a configuration with programs that stand for those of the node, as shell
// functions. It returns what it says, and the target of the link that it makes.
func openStore(t *testing.T, s provision.Store, programs string) (said, target string, err error) {
	t.Helper()
	bu, err := ignition.Render(ignition.Config{Node: provision.Node{Store: s}})
	if err != nil {
		t.Fatal(err)
	}
	ign, err := ignition.Translate(bu)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ignition.Files(ign)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "pinbox/store-0")
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o755),
		os.WriteFile(filepath.Join(dir, "store.env"), files[layout.StoreEnvPath], 0o644)); err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(string(files[layout.BootPath]), layout.StoreLink, link)
	out, err := exec.Command("sh", "-c", programs+"\n"+script, filepath.Join(dir, "boot"), "open_store").CombinedOutput()
	target, _ = os.Readlink(link)
	return string(out), target, err
}

// Programs of a node. dmsetup says what it creates.
const (
	noUdev = "udevadm() { :; }\n"
	mapper = "dmsetup() { case $1 in targets) echo 'verity v1.9.0' ;; create) echo $* ;; esac; }\n" +
		"losetup() { echo losetup $* >&2; echo /dev/loop7; }\n"
	noModule = "dmsetup() { [ $1 = targets ] && echo 'linear v1.4.0'; }\nmodprobe() { false; }\n"
	one      = "lsblk() { printf ' /dev/sda\\nroot /dev/sda4\\npinbox-store /dev/sda5\\n'; }\n"
	two      = "lsblk() { printf 'pinbox-store /dev/sda5\\npinbox-store-2 /dev/sdc1\\npinbox-store /dev/sdb1\\n'; }\n"
)

func TestOpenStore(t *testing.T) {
	tree := verity.Tree{Root: digest.FromString("root"), Blocks: 10}
	file := filepath.Join(t.TempDir(), "store.squashfs")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	partition := provision.Store{PartitionLabel: "pinbox-store", Tree: tree}
	const device = "/dev/disk/by-partlabel/pinbox-store"
	for name, c := range map[string]struct {
		store    provision.Store
		policy   layout.Verity
		programs string
		says     string
		link     string // "" if the script fails
	}{
		"file": {
			provision.Store{Path: file, Tree: tree}, "", mapper, "0 80 verity 1 /dev/loop7 /dev/loop7 4096 4096 10 11 sha256 " +
				tree.Root.Encoded() + " -", "/dev/mapper/pinbox-store-0",
		},
		"no dm-verity":          {provision.Store{Path: file, Tree: tree}, "", noModule, "has no dm-verity", file},
		"no dm-verity, require": {provision.Store{Path: file, Tree: tree}, layout.VerityRequire, noModule, "has no dm-verity", ""},
		"off":                   {provision.Store{Path: file, Tree: tree}, layout.VerityOff, mapper, "says off", file},
		"no tree, require":      {provision.Store{Path: file}, layout.VerityRequire, mapper, "no hash tree", ""},
		"one label":             {partition, layout.VerityOff, noUdev + one, "says off", device},
		"two devices with one label": {
			partition, layout.VerityOff, noUdev + two, "several devices have the label pinbox-store: /dev/sda5 /dev/sdb1\n", "",
		},
		"two media with one label": {
			provision.Store{VolumeLabel: "PINBOX"}, layout.VerityOff,
			noUdev + "lsblk() { printf 'PINBOX /dev/sr0\\nPINBOX /dev/sr1\\n'; }\n", "label PINBOX: /dev/sr0 /dev/sr1\n", "",
		},
		"tree that the kernel refuses": {
			provision.Store{Path: file, Tree: tree}, "",
			mapper + "dmsetup() { [ $1 = targets ] && echo 'verity v1.9.0'; }\n", "dm-verity cannot open " + file, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.store.Verity = c.policy
			said, link, err := openStore(t, c.store, c.programs)
			var exit *exec.ExitError
			if link != c.link || errors.As(err, &exit) != (c.link == "") {
				t.Errorf("got link %q, %v, want %q:\n%s", link, err, c.link, said)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("got %q, want %q in it", said, c.says)
			}
		})
	}
}

// A node with keys believes nothing that is not signed, and its own store by the root alone.
func TestKeysRequireVerityOfTheOwnStore(t *testing.T) {
	keys := ignition.Snippet{Name: "keys.bu", Content: []byte("variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n" +
		"  - path: " + layout.KeysDir + "/site.pub\n    contents:\n      inline: key\n")}
	for policy, want := range map[layout.Verity]string{
		"": "VERITY=require", layout.VerityAuto: "VERITY=require", layout.VerityOff: "VERITY=off",
	} {
		bu, err := ignition.Render(ignition.Config{Node: provision.Node{Store: provision.Store{Verity: policy}}, Snippets: []ignition.Snippet{keys}})
		if err != nil || !strings.Contains(string(bu), want) {
			t.Errorf("policy %q: got %v and no %q", policy, err, want)
		}
	}
}
