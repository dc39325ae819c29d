package ignition

import (
	"fmt"
	"regexp"

	ign "github.com/coreos/ignition/v2/config"
	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/verity"
)

var byLabel = regexp.MustCompile(`(?m)^What=/dev/disk/by-label/(.+)$`)

// VolumeLabel returns the volume label of the medium that a configuration mounts the store from,
// "" if it mounts it from elsewhere.
func VolumeLabel(config []byte) (string, error) {
	c, _, err := ign.Parse(config)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrButane, err)
	}
	for _, u := range c.Systemd.Units {
		if u.Name != provision.UnitName(layout.MediumMount) || u.Contents == nil {
			continue
		}
		if m := byLabel.FindStringSubmatch(*u.Contents); m != nil {
			return m[1], nil
		}
	}
	return "", nil
}

var fetchedFrom = regexp.MustCompile(`(?m)^ExecStart=\S+ fetch-store .* (https?://\S+) \S+$`)

// StoreURL returns where a node with this configuration fetches its store, "" if it does not. fromISO reports whether
// it expects the store on the ISO that it booted from.
func StoreURL(config []byte) (url string, fromISO bool, err error) {
	c, _, err := ign.Parse(config)
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrButane, err)
	}
	for _, u := range c.Systemd.Units {
		if u.Contents == nil {
			continue
		}
		if m := fetchedFrom.FindStringSubmatch(*u.Contents); m != nil {
			url = m[1]
		}
	}
	env, err := storeEnv(config)
	return url, env.Path == layout.LiveStorePath, err
}

// storeEnv returns what a configuration says of the store that it mounts; zero if it mounts none.
func storeEnv(config []byte) (layout.StoreEnv, error) {
	files, err := Files(config)
	if err != nil {
		return layout.StoreEnv{}, err
	}
	return layout.ParseStoreEnv(files[layout.StoreEnvPath])
}

// InstallDisk returns the disk that a live system with this configuration installs to, "" if it
// installs nothing.
func InstallDisk(config []byte) string {
	files, err := Files(config)
	if err != nil {
		return ""
	}
	var installer struct {
		Disk string `yaml:"dest-device"`
	}
	if err := yaml.Unmarshal(files[installerConfig], &installer); err != nil {
		return ""
	}
	return installer.Disk
}

// StoreTree returns the hash tree of the store that a configuration mounts; zero if it names none.
func StoreTree(config []byte) (verity.Tree, error) {
	env, err := storeEnv(config)
	if err != nil || env.RootHash == "" {
		return verity.Tree{}, err
	}
	root := digest.NewDigestFromEncoded(digest.SHA256, env.RootHash)
	if err := root.Validate(); err != nil {
		return verity.Tree{}, fmt.Errorf("%s: %w", layout.StoreEnvPath, err)
	}
	return verity.Tree{Root: root, Blocks: env.Blocks}, nil
}
