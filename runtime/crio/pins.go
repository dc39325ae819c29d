package crio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Pins is the drop-in that pins images, and how CRI-O reloads it.
type Pins struct {
	// Dir is the folder of CRI-O's configuration, /etc/crio.
	Dir string
	// Reload makes CRI-O reload its configuration.
	Reload func(context.Context) error
	// Log returns what CRI-O has logged since a time; nil means that Refusal finds nothing.
	Log func(context.Context, time.Time) ([]byte, error)

	reloaded time.Time
}

// path is the path of the drop-in, below Dir.
func (p *Pins) path() string {
	name, _ := filepath.Rel(etcCrio, PinnedImagesPath) // both absolute
	return filepath.Join(p.Dir, name)
}

// Current returns the pins of the drop-in, none if it does not exist. exact reports that it has what Apply writes for
// them. others reports whether another file pins an image: a later one, which replaces them, or an earlier one, whose
// pins the drop-in has, too.
func (p *Pins) Current() (images []pinset.Image, exact bool, others func(name string) bool, err error) {
	config, configErr := ReadConfig(input.Dir(p.Dir)) // Check reports the error
	theirs := config.Earlier
	if configErr == nil && config.PinnedBy != PinnedImagesPath {
		theirs = config.PinnedImages
	}
	others = newPatterns(theirs).match
	content, err := input.Read(p.path()) // it has a line for each pin
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, others, nil
	}
	if err != nil {
		return nil, false, others, err
	}
	var s section
	if err := toml.Unmarshal(content, &s); err != nil || s.Crio.Image.PinnedImages == nil {
		return nil, false, others, nil // another program has written it: Apply replaces it
	}
	var set pinset.Set
	for _, pin := range ofPinbox(content, *s.Crio.Image.PinnedImages) {
		if img, err := pinset.ParseImage(pin); err == nil {
			set.Images = append(set.Images, img)
		}
	}
	images = pinset.Union(set)
	return images, string(content) == string(renderPins(images, config)), others, nil
}

// Apply writes the drop-in, if it has changed, and makes CRI-O reload it. It does not reload a
// configuration that CRI-O would refuse or crash on: Check names the file. The temporary file is not in crio.conf.d, of
// which CRI-O reads every file.
func (p *Pins) Apply(ctx context.Context, images []pinset.Image) (reloaded bool, err error) {
	// Dir itself must exist: if not, its path is wrong.
	if err := os.Mkdir(filepath.Dir(p.path()), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return false, fmt.Errorf("pin images: %w", err)
	}
	config, configErr := ReadConfig(input.Dir(p.Dir))
	if _, err := atomicfile.WriteOutside(p.path(), renderPins(images, config), 0o644); err != nil {
		return false, fmt.Errorf("pin images: %w", err)
	}
	if configErr != nil {
		if _, err := ReadConfig(input.Dir(p.Dir)); err != nil { // it may have been the old drop-in
			return false, nil
		}
	}
	p.reloaded = time.Now()
	if err := p.Reload(ctx); err != nil {
		return false, fmt.Errorf("reload CRI-O: %w", err)
	}
	return true, nil
}

// Check returns an error if CRI-O's configuration does not pin these images, or lets CRI-O remove
// them.
func (p *Pins) Check(images []pinset.Image) error {
	config, err := ReadConfig(input.Dir(p.Dir))
	if err != nil {
		return err
	}
	return config.CheckPins(images)
}
