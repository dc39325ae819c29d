package crio_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pinbox/pinbox/runtime/crio"
)

const serviceUnit = `[Unit]
Description=CRI-O
[Service]
EnvironmentFile=-/etc/sysconfig/crio
Environment=GOTRACEBACK=crash
ExecStart=/usr/bin/crio \\
          $CRIO_CONFIG_OPTIONS \\
          $CRIO_STORAGE_OPTIONS
Restart=on-failure
`

// Whatever sets an option of CRI-O that replaces what files say is named: the unit, a drop-in, or a file of variables.
func TestServices(t *testing.T) {
	for name, c := range map[string]struct {
		dropin, variables, config, storage string
		want                               []string
	}{
		"a package":            {},
		"the usual folder":     {variables: "CRIO_CONFIG_OPTIONS=--config-dir=/etc/crio/crio.conf.d/"},
		"a comment":            {variables: "# CRIO_STORAGE_OPTIONS=--storage-driver=vfs"},
		"another option":       {variables: `CRIO_CONFIG_OPTIONS="--log-level debug"`},
		"another folder":       {variables: `CRIO_CONFIG_OPTIONS="--config-dir /etc/other"`, want: []string{"/etc/sysconfig/crio makes it read /etc/other"}},
		"its short name":       {dropin: "ExecStart=\nExecStart=/opt/crio -d /etc/other", want: []string{"/10.conf makes it read /etc/other"}},
		"a variable":           {variables: "CONTAINER_CONFIG_DIR=/etc/other", want: []string{"/etc/sysconfig/crio makes it read /etc/other"}},
		"another file":         {dropin: `Environment="CONTAINER_CONFIG=/etc/other.conf"`, want: []string{"/10.conf makes it read /etc/other.conf"}},
		"a variable in a word": {dropin: "Environment=D=/etc/other\nExecStart=\nExecStart=/opt/crio --config-dir=${D}", want: []string{"/10.conf makes"}},
		"storage options":      {variables: "CRIO_STORAGE_OPTIONS='--storage-opt overlay.mountopt=nodev'", want: []string{"/etc/sysconfig/crio has --storage-opt overlay.mountopt=nodev"}},
		"a storage option":     {dropin: "Environment=CONTAINER_STORAGE_OPT=a=b", want: []string{"/10.conf has --storage-opt a=b"}},
		"pins":                 {dropin: "ExecStart=\nExecStart=/opt/crio --pinned-images a,b", want: []string{"/10.conf has --pinned-images a,b"}},
		"overlay":              {config: "storage_driver = 'overlay'", storage: "[storage]\ndriver = 'vfs'"},
		"a driver":             {config: "storage_driver = 'zfs'", want: []string{"/etc/crio/crio.conf sets the storage driver zfs"}},
		"a driver of storage":  {storage: "[storage]\ndriver = 'btrfs'", want: []string{"storage.conf sets the storage driver btrfs"}},
		"a driver of the unit": {variables: "CRIO_STORAGE_OPTIONS=-s vfs", config: "storage_driver = 'overlay'", want: []string{"/etc/sysconfig/crio sets the storage driver vfs"}},
		"broken storage.conf":  {storage: "[storage", want: []string{"storage.conf: "}},
		"several": {variables: "CONTAINER_STORAGE_DRIVER=vfs\nCONTAINER_STORAGE_OPT=a",
			want: []string{"--storage-opt a", "the storage driver vfs"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := []crio.Source{{Name: "/usr/lib/systemd/system/crio.service", Content: []byte(serviceUnit)}}
			if c.dropin != "" {
				files = append(files, crio.Source{Name: "/10.conf", Content: []byte("[Service]\n" + c.dropin + "\n")})
			}
			s, err := crio.ReadService(files, func(name string) ([]byte, error) {
				if name != "/etc/sysconfig/crio" {
					t.Errorf("got a question for %s", name)
				}
				return []byte(c.variables + "\n"), nil
			})
			if err != nil || !strings.HasSuffix(s.Program, "/crio") {
				t.Fatalf("got %s, %v", s.Program, err)
			}
			etc := fstest.MapFS{"crio.conf": {Data: []byte("[crio]\n" + c.config)}}
			e, err := crio.ReadEffective(etc, func(name string) ([]byte, error) {
				if c.storage == "" || name != crio.StorageConf {
					return nil, nil
				}
				return []byte(c.storage), nil
			})
			e.Service = s
			got := e.Unsuitable()
			if err != nil {
				got = append(got, err.Error())
			}
			if !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
