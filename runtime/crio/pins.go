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
	"github.com/pinbox/pinbox/storage/pinset"
)

// Pins is the drop-in that pins images, and the way to have CRI-O read it.
type Pins struct {
	// Dir is the folder of CRI-O's configuration, /etc/crio.
	Dir string
	// Reload tells CRI-O to read its configuration again.
	Reload func(context.Context) error
	// Log gives what CRI-O has logged since a time; nil if nobody knows.
	Log func(context.Context, time.Time) ([]byte, error)

	reloaded time.Time
}

// path is where the drop-in stands, below Dir.
func (p *Pins) path() string {
	name, _ := filepath.Rel(etcCrio, PinnedImagesPath) // both absolute
	return filepath.Join(p.Dir, name)
}

// Current gives the pins of the drop-in as it is, none if there is none. exact
// says that it is just as RenderPinned has them. others are the pins of a file
// that comes later.
func (p *Pins) Current() (images []pinset.Image, exact bool, others []string, err error) {
	if config, err := ReadConfig(os.DirFS(p.Dir)); err == nil && config.PinnedBy != PinnedImagesPath {
		others = config.PinnedImages
	}
	content, err := os.ReadFile(p.path())
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, others, nil
	}
	if err != nil {
		return nil, false, others, err
	}
	var s section
	if err := toml.Unmarshal(content, &s); err != nil || s.Crio.Image.PinnedImages == nil {
		return nil, false, others, nil // not ours, or no longer: it is written anew
	}
	var set pinset.Set
	for _, pin := range *s.Crio.Image.PinnedImages {
		if img, err := pinset.ParseImage(pin); err == nil {
			set.Images = append(set.Images, img)
		}
	}
	images = pinset.Union(set)
	return images, string(content) == string(RenderPinned(images)), others, nil
}

// Apply has the drop-in pin these images, if it does not yet, and CRI-O read it.
// It does not reload a configuration that CRI-O would refuse, or die of: Check
// says which file is to blame. The temporary file is beside crio.conf.d, since
// CRI-O reads all that is in there.
func (p *Pins) Apply(ctx context.Context, images []pinset.Image) (reloaded bool, err error) {
	// CRI-O's own folder must be there: anything else is a misspelt path.
	if err := os.Mkdir(filepath.Dir(p.path()), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return false, fmt.Errorf("pin images: %w", err)
	}
	temp := filepath.Join(p.Dir, ".50-pinned-images.pinbox")
	if _, err := atomicfile.WriteVia(temp, p.path(), RenderPinned(images), 0o644); err != nil {
		return false, fmt.Errorf("pin images: %w", err)
	}
	if _, err := ReadConfig(os.DirFS(p.Dir)); err != nil {
		return false, nil
	}
	p.reloaded = time.Now()
	if err := p.Reload(ctx); err != nil {
		return false, fmt.Errorf("reload CRI-O: %w", err)
	}
	return true, nil
}

// Check says what in CRI-O's configuration keeps the images from being pinned, or
// puts them at risk.
func (p *Pins) Check(images []pinset.Image) error {
	config, err := ReadConfig(os.DirFS(p.Dir))
	if err != nil {
		return err
	}
	return config.CheckPins(images)
}
