package crio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrConfig is a configuration that CRI-O would refuse.
var ErrConfig = errors.New("CRI-O cannot read its configuration")

const etcCrio = "/etc/crio"

// Config is the sum of CRI-O's configuration files, as far as pins and stores are concerned, and
// which file each value comes from.
type Config struct {
	// PinnedImages that CRI-O uses, and the file that they come from.
	PinnedImages []string
	PinnedBy     string
	// Earlier are the pins of the files before PinnedImagesPath, which that replaces, but the one that crashes CRI-O, and
	// EarlierBy the last file of them that has any: pins of the distribution, or of an administrator.
	Earlier   []string
	EarlierBy string
	// InternalRepair is whether CRI-O repairs its stores after an unclean stop,
	// and the file that sets it; "" means CRI-O's default, which is true.
	InternalRepair   bool
	InternalRepairBy string
	// Root and RunRoot of containers/storage; "" means those of storage.conf.
	Root, RunRoot string
	// StorageDriver of containers/storage, and the file that sets it; "" means that of storage.conf.
	StorageDriver, StorageDriverBy string
	// StorageOptions of all files; CRI-O appends them.
	StorageOptions []string
	// AuthFile has the credentials for all registries; "" means the default files of
	// containers-auth.json(5).
	AuthFile string
	// SignaturePolicy is the file of the signature policy; "" means DefaultPolicy.
	SignaturePolicy string
	// BigFiles is where pulls keep blobs until they are unpacked; "" means /var/tmp.
	BigFiles string
	// Insecure are registries to use without TLS; InsecureRegistries says for which versions.
	Insecure []string
	// PauseImage is the image of each pod's own container; "" means CRI-O's default.
	PauseImage string
	// Ineffective are files with a pinned_images that CRI-O ignores, since it is not under
	// [crio.image].
	Ineffective []string
}

// maxConfig limits all files together, in bytes: 100,000 pins of 150 bytes are 15 MB, and CRI-O keeps them all in
// memory. In an image of an operating system, a file may be a link to a device without an end.
const maxConfig = 16 << 20

// section is the part of a file that pinbox reads. CRI-O ignores unknown keys.
type section struct {
	PinnedImages *[]string `toml:"pinned_images"` // at the top level, where CRI-O ignores it
	Crio         struct {
		InternalRepair *bool    `toml:"internal_repair"`
		Root           *string  `toml:"root"`
		RunRoot        *string  `toml:"runroot"`
		StorageDriver  string   `toml:"storage_driver"`
		StorageOption  []string `toml:"storage_option"`
		Image          struct {
			PinnedImages *[]string `toml:"pinned_images"`
			AuthFile     *string   `toml:"global_auth_file"`
			Policy       *string   `toml:"signature_policy"`
			BigFiles     *string   `toml:"big_files_temporary_dir"`
			Insecure     *[]string `toml:"insecure_registries"`
			PauseImage   *string   `toml:"pause_image"`
		} `toml:"image"`
	} `toml:"crio"`
}

// ReadConfig reads crio.conf and every file below crio.conf.d of the folder etc,
// /etc/crio on a node, in the order in which CRI-O reads them: hidden ones and
// editors' backups too, at any depth (UpdateFromPath in CRI-O's
// pkg/config/config.go). Later files replace pinned_images and add to
// storage_option.
func ReadConfig(etc fs.FS) (Config, error) {
	files := []string{"crio.conf"}
	err := fs.WalkDir(etc, "crio.conf.d", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, err
	}
	budget := int64(maxConfig)
	return readFiles(files, func(name string) ([]byte, error) {
		content, err := read(etc, name, budget)
		budget -= int64(len(content))
		return content, err
	})
}

// ReadFiles reads the configuration from the contents of files, by their paths below /etc/crio.
func ReadFiles(contents map[string][]byte) (Config, error) {
	files := slices.DeleteFunc(slices.Collect(maps.Keys(contents)), func(name string) bool {
		return name != "crio.conf" && !strings.HasPrefix(name, "crio.conf.d/")
	})
	slices.SortFunc(files, func(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) })
	return readFiles(files, func(name string) ([]byte, error) { return contents[name], nil })
}

// readFiles reads files in this order.
func readFiles(files []string, read func(name string) ([]byte, error)) (Config, error) {
	c := Config{InternalRepair: true}
	var errs []error
	for _, name := range files {
		content, err := read(name)
		if err == nil {
			err = c.add(name, content)
		}
		errs = append(errs, err)
		if slices.Compare(strings.Split(path.Join(etcCrio, name), "/"), strings.Split(PinnedImagesPath, "/")) < 0 {
			c.Earlier, c.EarlierBy = slices.DeleteFunc(slices.Clone(c.PinnedImages), crashes), c.PinnedBy
		}
	}
	if slices.ContainsFunc(c.PinnedImages, crashes) { // a list that a later file replaces does not matter
		errs = append(errs, fmt.Errorf("%w: %s pins \"*\" alone, which crashes it", ErrConfig, c.PinnedBy))
	}
	return c, errors.Join(errs...)
}

// crashes reports whether CRI-O crashes on a pin.
func crashes(pin string) bool { return pin == "*" }

// read reads a file of at most so many bytes; none if it does not exist.
func read(etc fs.FS, name string, most int64) ([]byte, error) {
	fi, err := fs.Stat(etc, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && fi.Mode()&fs.ModeNamedPipe != 0 { // to open it would block; a device such as /dev/null is fine
		err = fmt.Errorf("%w: %s is a pipe", ErrConfig, path.Join(etcCrio, name))
	}
	if err != nil {
		return nil, err
	}
	f, err := etc.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, fmt.Errorf("%w: %s: its files have more than %d bytes", ErrConfig, path.Join(etcCrio, name), maxConfig)
	}
	return content, err
}

func (c *Config) add(name string, content []byte) error {
	where := path.Join(etcCrio, name)
	var s section
	if _, err := toml.NewDecoder(bytes.NewReader(content)).Decode(&s); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, where, err)
	}
	if s.PinnedImages != nil {
		c.Ineffective = append(c.Ineffective, where)
	}
	if pins := s.Crio.Image.PinnedImages; pins != nil {
		c.PinnedImages, c.PinnedBy = *pins, where
	}
	if repair := s.Crio.InternalRepair; repair != nil {
		c.InternalRepair, c.InternalRepairBy = *repair, where
	}
	if driver := s.Crio.StorageDriver; driver != "" {
		c.StorageDriver, c.StorageDriverBy = driver, where
	}
	c.StorageOptions = append(c.StorageOptions, s.Crio.StorageOption...)
	replace(&c.Root, s.Crio.Root)
	replace(&c.RunRoot, s.Crio.RunRoot)
	replace(&c.AuthFile, s.Crio.Image.AuthFile)
	replace(&c.SignaturePolicy, s.Crio.Image.Policy)
	replace(&c.BigFiles, s.Crio.Image.BigFiles)
	replace(&c.Insecure, s.Crio.Image.Insecure)
	replace(&c.PauseImage, s.Crio.Image.PauseImage)
	return nil
}

// replace sets a value that a later file overrides.
func replace[T any](old, by *T) {
	if by != nil {
		*old = *by
	}
}

// Missing counts the images that it does not pin.
func (c Config) Missing(images []pinset.Image) (n int) {
	pins := newPatterns(c.PinnedImages)
	for _, img := range images {
		if !pins.match(img.String()) {
			n++
		}
	}
	return n
}

// CheckPins returns an error if the configuration does not pin these images, or lets CRI-O remove
// them: internal_repair.
func (c Config) CheckPins(images []pinset.Image) error {
	var errs []error
	missing := c.Missing(images)
	switch {
	case missing == 0:
	case c.PinnedBy == "":
		errs = append(errs, fmt.Errorf("no file of %s pins images", etcCrio))
	case c.PinnedBy != PinnedImagesPath:
		errs = append(errs, fmt.Errorf("%s comes later than %s and replaces its pins: %d of %d images are not in it",
			c.PinnedBy, PinnedImagesPath, missing, len(images)))
	default:
		errs = append(errs, fmt.Errorf("%s lacks %d of %d images", c.PinnedBy, missing, len(images)))
	}
	for _, name := range c.Ineffective {
		errs = append(errs, fmt.Errorf("%s: pinned_images has no effect there: it belongs under [crio.image]", name))
	}
	hasStore := slices.ContainsFunc(c.StorageOptions, func(o string) bool { return strings.Contains(o, layout.SlotsDir) })
	if hasStore && c.InternalRepair {
		by := c.InternalRepairBy
		if by == "" {
			by = "CRI-O's default"
		}
		// No release is known to have the fix, so the version does not matter yet.
		errs = append(errs, fmt.Errorf("internal_repair is true, by %s: after an unclean stop CRI-O up to at least 1.34 "+
			"wipes its main store", by))
	}
	return errors.Join(errs...)
}

// patterns are pins as CRI-O compares them with the names of an image, whatever the case of their letters:
// CompileRegexpsForPinnedImages in CRI-O's internal/storage/image.go.
type patterns struct {
	exact map[string]bool
	// within are *KEYWORD* and START*, which CRI-O finds anywhere in a name.
	within []string
}

func newPatterns(pins []string) patterns {
	p := patterns{exact: map[string]bool{}}
	for _, pin := range pins {
		pin = strings.ToLower(pin)
		switch start, ok := strings.CutSuffix(pin, "*"); {
		case ok && strings.HasPrefix(start, "*"):
			p.within = append(p.within, start[1:])
		case ok:
			p.within = append(p.within, start)
		default:
			p.exact[pin] = true
		}
	}
	return p
}

func (p patterns) match(name string) bool {
	name = strings.ToLower(name)
	return p.exact[name] || slices.ContainsFunc(p.within, func(text string) bool { return strings.Contains(name, text) })
}

// ImageStores are the additional image stores: parseOptions in containers/storage,
// drivers/overlay/overlay.go. A store that two different options name is there twice, as CRI-O then has it twice.
func (c Config) ImageStores() (all []string) {
	seen := map[string]bool{}
	for _, option := range c.StorageOptions {
		key, value, _ := strings.Cut(option, "=")
		switch strings.TrimPrefix(strings.ToLower(key), "overlay.") {
		case "imagestore", "additionalimagestore":
			if seen[option] { // CRI-O's removeDupStorageOpts
				continue
			}
			seen[option] = true
			for _, store := range strings.Split(value, ",") {
				if store != "" {
					all = append(all, filepath.Clean(store))
				}
			}
		}
	}
	return all
}

// InsecureRegistries are the hosts and networks that CRI-O of a version uses without TLS by itself: those of
// insecure_registries, and loopback. From 1.35 on there are none: only registries.conf counts. A version that cannot be
// read counts as an older one.
func (c Config) InsecureRegistries(version string) []string {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err == nil && (major != 1 || minor >= 35) {
		return nil
	}
	return append([]string{"127.0.0.0/8"}, c.Insecure...)
}
