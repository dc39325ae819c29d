package ignition_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What a configuration does to the disk of the store, and of a live system.
func TestReviewOfDisks(t *testing.T) {
	installed := ignition.System{Disk: "/dev/sda", Partition: "pinbox-store"}
	byID := ignition.System{Disk: "/dev/disk/by-id/wwn-0x5", Partition: "pinbox-store"}
	byHand := ignition.System{Partition: "pinbox-store"}
	live := ignition.System{Live: true}
	for name, test := range map[string]struct {
		system ignition.System
		butane string
		want   error
		text   string // of the error, or of the note
	}{
		"/var as partition 5": {
			installed, "storage: {disks: [{device: /dev/sda, partitions: [{label: var, number: 5, start_mib: 25000, size_mib: 0, " +
				"wipe_partition_entry: true}]}]}", nil, "",
		},
		"the number of the store": {
			installed, "storage: {disks: [{device: /dev/sda, partitions: [{label: var, number: 128}]}]}", ignition.ErrDisk,
			"/dev/sda: partition 128 is the store's",
		},
		"the store is deleted": {
			installed, "storage: {disks: [{device: /dev/disk/by-id/coreos-boot-disk, partitions: [{number: 128, should_exist: false, " +
				"wipe_partition_entry: true}]}]}", ignition.ErrDisk, "partition 128",
		},
		"the number, perhaps": {
			byID, "storage: {disks: [{device: /dev/sda, partitions: [{label: var, number: 128}]}]}", nil, "it is the store's",
		},
		"the label of the store": {
			installed, "storage: {disks: [{device: /dev/sdb, partitions: [{label: pinbox-store, number: 1}]}]}", ignition.ErrDisk,
			"has the label pinbox-store",
		},
		"a partition made for the store": {
			byHand, "storage: {disks: [{device: /dev/sdb, partitions: [{label: pinbox-store, number: 1}]}]}", nil, "",
		},
		"wiped": {
			installed, "storage: {disks: [{device: /dev/sda, wipe_table: true}]}", ignition.ErrDisk, "/dev/sda: wipe_table",
		},
		"mirrored": {
			installed, "boot_device: {layout: x86_64, mirror: {devices: [/dev/sda, /dev/sdb]}}", ignition.ErrDisk, "boot_device.mirror",
		},
		"another one is wiped": {installed, "storage: {disks: [{device: /dev/sdb, wipe_table: true}]}", nil, ""},
		"wiped, perhaps":       {byID, "storage: {disks: [{device: /dev/sda, wipe_table: true}]}", nil, "the store is lost"},
		"/var on LUKS": {
			installed, "storage: {luks: [{name: var, device: /dev/disk/by-partlabel/var, clevis: {tpm2: true}}], filesystems: " +
				"[{device: /dev/mapper/var, path: /var, format: xfs, with_mount_unit: true}]}", nil, "",
		},
		"LUKS on the store": {
			installed, "storage: {luks: [{name: var, device: /dev/sda128, clevis: {tpm2: true}}]}", ignition.ErrDisk,
			"storage.luks: var: /dev/sda128 is the store's partition",
		},
		"the store is formatted": {
			byHand, "storage: {filesystems: [{device: /dev/disk/by-partlabel/pinbox-store, format: xfs}]}", ignition.ErrDisk,
			"storage.filesystems",
		},
		"the disk is formatted": {
			installed, "storage: {filesystems: [{device: /dev/sda, format: xfs, wipe_filesystem: true}]}", ignition.ErrDisk, "the whole disk",
		},
		"the disk in a RAID": {
			installed, "storage: {raid: [{name: md, level: raid1, devices: [/dev/sda, /dev/sdb]}]}", ignition.ErrDisk, "storage.raid: md",
		},
		"encrypted root":       {installed, "boot_device: {luks: {tpm2: true}}", nil, ""},
		"arguments, live":      {live, "kernel_arguments: {should_exist: [quiet]}", ignition.ErrLive, "kernel_arguments: quiet"},
		"no argument, live":    {live, "kernel_arguments: {should_not_exist: [quiet]}", ignition.ErrLive, "kernel_arguments: quiet"},
		"arguments":            {installed, "kernel_arguments: {should_exist: [quiet]}", nil, ""},
		"root, live":           {live, "boot_device: {luks: {tpm2: true}}", ignition.ErrLive, "root file system"},
		"/var on a disk, live": {live, "storage: {filesystems: [{device: /dev/sdb, path: /var, format: xfs, with_mount_unit: true}]}", nil, ""},
	} {
		for _, level := range []string{"itself", "merged"} {
			t.Run(name+", "+level, func(t *testing.T) {
				config, err := ignition.Translate([]byte("variant: fcos\nversion: 1.5.0\n" + test.butane + "\n"))
				if err != nil {
					t.Fatal(err)
				}
				if level == "merged" {
					config = []byte(`{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "data:;base64,` +
						base64.StdEncoding.EncodeToString(config) + `"}]}}}`)
				}
				notes, err := ignition.Review(config, test.system)
				said := strings.Join(notes, "\n")
				if err != nil {
					said = err.Error()
				}
				if !errors.Is(err, test.want) || !strings.Contains(said, test.text) || (test.text == "") != (said == "") {
					t.Errorf("got %v and the notes %q, want %v with %q", err, notes, test.want, test.text)
				}
			})
		}
	}
}

// What an offline node would have to fetch is refused, and named for one that has servers.
func TestReviewOfWhatIsFetched(t *testing.T) {
	const lab = "http://boot.lab/a"
	for name, test := range map[string]struct{ butane, item string }{ // the item; "" for nothing to fetch
		"file":       {"storage: {files: [{path: /etc/a, contents: {source: '" + lab + "'}}]}", "/etc/a"},
		"file by S3": {"storage: {files: [{path: /etc/a, contents: {source: 's3://site/a'}}]}", "/etc/a"},
		"file by TFTP, compressed": {
			"storage: {files: [{path: /etc/a, contents: {source: 'tftp://boot.lab/a', compression: gzip}}]}", "/etc/a",
		},
		"end of a file": {
			"storage: {files: [{path: /etc/a, contents: {inline: a}, append: [{inline: b}, {source: '" + lab + "'}]}]}", "/etc/a",
		},
		"key of a disk": {
			"storage: {luks: [{name: var, device: /dev/sdb, key_file: {source: '" + lab + "'}}]}", "storage.luks: var",
		},
		"certificate authority": {
			"ignition: {security: {tls: {certificate_authorities: [{source: '" + lab + "'}]}}}", "ignition.security",
		},
		"file, link and folder in it": {
			"storage: {files: [{path: /etc/a, contents: {inline: 'http://boot.lab'}}, {path: /etc/b}], " +
				"links: [{path: /etc/c, target: /etc/a}], directories: [{path: /etc/d}]}", "",
		},
		"config": {"ignition: {config: {merge: [{source: '" + lab + "'}]}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := ignition.Translate([]byte("variant: fcos\nversion: 1.5.0\n" + test.butane + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			merged := []byte(`{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "data:;base64,` +
				base64.StdEncoding.EncodeToString(config) + `"}]}}}`)
			for _, config := range [][]byte{config, merged} {
				_, err = ignition.Review(config, ignition.System{})
				if (test.item != "") != errors.Is(err, ignition.ErrFetch) || err != nil && !strings.Contains(err.Error(), test.item) {
					t.Errorf("offline: got %v, want an error with %q", err, test.item)
				}
				notes, err := ignition.Review(config, ignition.System{Network: true})
				said := strings.Join(notes, "\n")
				if err != nil || (test.item != "") != strings.Contains(said, " is fetched from ") || !strings.HasPrefix(said, test.item) {
					t.Errorf("with a server: got the notes %q, %v, want one with %q", notes, err, test.item)
				}
			}
		})
	}
}

// A file of one config counts no more when a later one has its content.
func TestReviewOfAFetchedFileThatIsReplaced(t *testing.T) {
	config := `{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "` + inner(asFiles(
		map[string]string{"/etc/a": "a"})) + `"}]}},
 "storage": {"files": [{"path": "/etc/a", "contents": {"source": "http://boot.lab/a"}}]}}`
	if notes, err := ignition.Review([]byte(config), ignition.System{}); err != nil || notes != nil {
		t.Errorf("got the notes %q and %v, want none", notes, err)
	}
}

// The pins of the user's own drop-ins are read: CRI-O takes the list of the last file.
func TestReviewOfPins(t *testing.T) {
	img, err := pinset.ParseImage("quay.example.com/a@sha256:" + strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	system := ignition.System{Images: []pinset.Image{img}}
	own := map[string]string{crio.PinnedImagesPath: string(crio.RenderPinned(system.Images))}
	pause := "[crio.image]\npinned_images = [\"registry.k8s.io/pause:3.10\"]\n"
	for name, test := range map[string]struct {
		file, content string
		want          error
		text          string
	}{
		"later":           {"/etc/crio/crio.conf.d/99-pinned.conf", pause, ignition.ErrPins, "99-pinned.conf has pinned_images"},
		"deeper":          {"/etc/crio/crio.conf.d/60/pinned.conf", pause, ignition.ErrPins, "60/pinned.conf has pinned_images"},
		"later, with all": {"/etc/crio/crio.conf.d/99", "[crio.image]\npinned_images = [\"quay.example.com/*\"]\n", nil, ""},
		"earlier":         {"/etc/crio/crio.conf.d/10-pinned.conf", pause, nil, "10-pinned.conf has pinned_images"},
		"main file":       {"/etc/crio/crio.conf", pause, nil, "registry.k8s.io/pause:3.10"},
		"no pins":         {"/etc/crio/crio.conf.d/99-x", "[crio.runtime]\nlog_level = \"info\"\n", nil, ""},
		"not TOML":        {"/etc/crio/crio.conf.d/99-x", "[crio", ignition.ErrPins, "99-x"},
		"another folder":  {"/etc/crio/crio.conf.disabled/99-x", pause, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := `{"ignition": {"version": "3.4.0", "config": {"merge": [{"source": "` + inner(asFiles(
				map[string]string{test.file: test.content})) + `"}]}}, ` + asFiles(own) + `}`
			notes, err := ignition.Review([]byte(config), system)
			said := strings.Join(notes, "\n")
			if err != nil {
				said = err.Error()
			}
			if !errors.Is(err, test.want) || !strings.Contains(said, test.text) || (test.text == "") != (said == "") {
				t.Errorf("got %v and the notes %q, want %v with %q", err, notes, test.want, test.text)
			}
		})
	}
}

// asFiles returns the part of a config with files.
func asFiles(contents map[string]string) string {
	var files []string
	for name, content := range contents {
		files = append(files, `{"path": "`+name+`", "contents": {"source": "data:;base64,`+
			base64.StdEncoding.EncodeToString([]byte(content))+`"}}`)
	}
	return `"storage": {"files": [` + strings.Join(files, ",") + `]}`
}
