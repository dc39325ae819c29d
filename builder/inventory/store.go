package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// readStore reads what the store says of its images.
func (v *Inventory) readStore(ctx context.Context, r *release.Release, lock pinset.Lock) error {
	files, err := r.Files()
	if err != nil {
		return err
	}
	if files == nil {
		v.unread("dates, labels and signatures of images", errNoRecords)
		return nil
	}
	return v.readRecords(ctx, files, lock)
}

// errNoRecords is about locks, and media in parts.
var errNoRecords = errors.New("there is no store here that can be read in place")

func (v *Inventory) unread(what string, why error) {
	v.Unread = append(v.Unread, fmt.Sprintf("%s: %v", what, why))
}

// maxDocuments is the limit for the configurations and signatures of all images in bytes: 300 KB for each of an
// OpenShift release.
const maxDocuments = 64 << 20

// records reads documents of the images of a store.
type records struct {
	files fs.FS
	left  int64 // bytes that may be read
}

var errTooLarge = fmt.Errorf("the documents of the images have more than %d MiB", maxDocuments>>20)

func (r *records) read(image, key string) ([]byte, error) {
	f, err := r.files.Open(layout.DocumentFile(image, key))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, input.ErrNotRegular)
	}
	text, err := io.ReadAll(io.LimitReader(f, r.left+1))
	if r.left -= int64(len(text)); r.left < 0 {
		return nil, errTooLarge
	}
	return text, err
}

// readRecords reads the configurations and signatures of the images. A damaged one is noted, as it is of others that
// are not damaged that somebody wants to know.
func (v *Inventory) readRecords(ctx context.Context, files fs.FS, lock pinset.Lock) error {
	metadata := map[string]string{} // by the IDs of images
	err := layout.Open(files).Images(func(img layout.Image) error {
		metadata[img.ID] = img.Metadata
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		v.unread("dates, labels and signatures of images", errors.New("a thin delta has none before nodes make its store"))
		return nil
	}
	if err != nil {
		return err
	}
	r := &records{files, maxDocuments}
	for i, locked := range lock.Images {
		if err := ctx.Err(); err != nil {
			return err
		}
		img := &v.Images[i]
		if err := img.configure(r, locked.Config); err != nil {
			v.unread("configuration of "+locked.Pin, err)
		}
		if img.Signatures, err = attached(r, locked, metadata[locked.Config.Encoded()]); err != nil {
			v.unread("signatures of "+locked.Pin, err)
			continue
		}
		if img.Check = Unsigned; len(img.Signatures) > 0 {
			img.Check = NotChecked
		}
	}
	return nil
}

// maxPlatform is how many bytes the name of a platform has: twice those of the longest.
const maxPlatform = 32

// configuration is what a configuration says of its image: config.md of the OCI image specification.
type configuration struct {
	Created      time.Time `json:"created"`
	OS           string    `json:"os"`
	Architecture string    `json:"architecture"`
	Variant      string    `json:"variant"`
	Config       struct {
		Labels map[string]string `json:"Labels"`
	} `json:"config"`
}

// configure reads the configuration of an image.
func (i *Image) configure(r *records, id digest.Digest) error {
	text, err := r.read(id.Encoded(), layout.ConfigKey(id.Encoded()))
	if err != nil {
		return err
	}
	if got := digest.FromBytes(text); got != id {
		return fmt.Errorf("it has changed: got %s, want %s", got, id)
	}
	var c configuration
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	i.Created, i.Labels = c.Created, c.Config.Labels
	p := pinset.Platform(c.OS + "/" + c.Architecture)
	if c.Variant != "" {
		p += pinset.Platform("/" + c.Variant)
	}
	if p.Validate() == nil && len(p) <= maxPlatform && pinset.Printable(string(p)) {
		i.Platform = p
	}
	return nil
}
