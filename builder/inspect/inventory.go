package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// Version is the version of the form of an inventory.
const Version = 1

// Inventory is what an appliance, a delta, a medium or a lock holds.
type Inventory struct {
	Version int `json:"version"`
	// Images are in the order of their pins.
	Images []Held `json:"images"`
	// Documents are the store and the files beside it, by their names.
	Documents []Document `json:"documents"`
	// Keys is the file of the keys with which signatures of documents were verified; "" if none was verified.
	Keys string `json:"keys,omitempty"`
	// Unread lists what could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// Held is an image of the lock.
type Held struct {
	Pin string `json:"pin"`
	// Name is the one by which people know it: of the component, or the last part of the repository with a tag.
	Name       string        `json:"name"`
	Repository string        `json:"repository"`
	Digest     digest.Digest `json:"digest"`
	// Manifest is the digest of the manifest for the platform.
	Manifest digest.Digest `json:"manifest"`
	Tags     []string      `json:"tags,omitempty"`
	// Component is its name in an OpenShift release; "" if it has none.
	Component string `json:"component,omitempty"`
	// Platform is the one that the image names itself, or that of the lock.
	Platform pinset.Platform `json:"platform"`
	// Layers is how many layers it has, and Size their bytes in a registry.
	Layers int   `json:"layers"`
	Size   int64 `json:"size"`
	// Created and Labels are those of its configuration, which has the digest in the lock; none if it was not read.
	Created time.Time         `json:"created,omitzero"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Signatures are those in the store, and Check is Unread if they could not be read.
	Signatures []Attached `json:"signatures,omitempty"`
	Check      Check      `json:"check"`
}

// Attached is a signature of an image in the store. All of it is what the signature says of itself.
type Attached struct {
	// Form is sigstore or OpenPGP, and Keys are the IDs of the keys, of which sigstore names none.
	Form string   `json:"form"`
	Keys []string `json:"keys,omitempty"`
	// Reference and Manifest are the name and the digest that were signed.
	Reference string        `json:"reference,omitempty"`
	Manifest  digest.Digest `json:"manifest,omitempty"`
	// Other is true if that is the digest of no manifest of the image.
	Other bool `json:"other,omitempty"`
	// Check is always NotChecked: policies of CRI-O and of builds name the keys of images.
	Check Check `json:"check"`
}

// Check says what is known of a signature.
type Check string

// Values of Check.
const (
	Verified   Check = "verified"
	NotChecked Check = "not checked"
	Unsigned   Check = "none"
	Unread     Check = "not read"
)

// Document is the store, or a file beside it.
type Document struct {
	Name string `json:"name"`
	// Kind says what it is, in a few words.
	Kind string `json:"kind"`
	// Size in bytes. Files is how many files a folder has, of which the size is unknown; 0 for a file.
	Size  int64 `json:"size"`
	Files int   `json:"files,omitempty"`
	// SHA256 is the digest that the file has, or that the sums list if Sums is Uncompared; "" if unknown.
	SHA256 string `json:"sha256,omitempty"`
	Sums   Sums   `json:"sums,omitempty"`
	// Signatures are those of the file itself.
	Signatures []Signature `json:"signatures,omitempty"`
	// Check says whether it was verified, by a signature of its own or by that of the sums that list it.
	Check Check `json:"check"`
}

// Sums says how a document compares with the sums; "" if there are none.
type Sums string

// Values of Sums. Uncompared are large files: `pinbox verify` compares them.
const (
	Same       Sums = "same"
	Differs    Sums = "differs"
	Unlisted   Sums = "not listed"
	Missing    Sums = "missing"
	Uncompared Sums = "not compared"
)

// Signature is a detached signature in a file.
type Signature struct {
	File string `json:"file"`
	// Problem is why it could not be read; "" if it was read.
	Problem string `json:"problem,omitempty"`
	Check   Check  `json:"check"`
}

func heldImage(locked pinset.LockedImage, platform pinset.Platform) Held {
	img := Held{
		Pin: locked.Pin, Name: locked.Name(), Manifest: locked.Manifest, Tags: locked.Tags, Component: locked.Component(),
		Platform: platform, Layers: len(locked.Layers), Check: Unread,
	}
	if parsed, err := pinset.ParseImage(locked.Pin); err == nil { // locks have no other pins
		img.Repository, img.Digest = parsed.Repository, parsed.Digest
	}
	for _, l := range locked.Layers {
		img.Size += l.Size
	}
	return img
}

func (v *Inventory) unread(what string, why any) {
	v.Unread = append(v.Unread, fmt.Sprintf("%s: %v", what, why))
}

// readRecords reads the configurations and signatures of the images. One that is damaged is noted, and the others are
// read.
func (v *Inventory) readRecords(ctx context.Context, from *release.Release, lock pinset.Lock) error {
	files, err := from.Files()
	if err != nil {
		return err
	}
	if files == nil { // of a lock, or of a medium in parts
		v.unread("dates, labels and signatures of images", "there is no store here that can be read in place")
		return nil
	}
	metadata := map[string]string{} // by the IDs of images
	store := layout.Open(files)
	err = store.Images(func(img layout.Image) error {
		metadata[img.ID] = img.Metadata
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		v.unread("dates, labels and signatures of images", "a thin delta has none before nodes make its store")
		return nil
	}
	if err != nil {
		return err
	}
	for i, locked := range lock.Images {
		if err := ctx.Err(); err != nil {
			return err
		}
		img := &v.Images[i]
		if err := img.configure(store, locked.Config); err != nil {
			v.unread("configuration of "+locked.Pin, err)
		}
		own := []digest.Digest{img.Manifest, locked.Index, img.Digest}
		id := locked.Config.Encoded()
		if img.Signatures, err = attached(store, id, own, metadata[id]); err != nil {
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

// configure reads the configuration of an image: config.md of the OCI image specification.
func (img *Held) configure(store *layout.Store, id digest.Digest) error {
	text, err := store.Document(id.Encoded(), layout.ConfigKey(id.Encoded()))
	if err != nil {
		return err
	}
	if got := digest.FromBytes(text); got != id {
		return fmt.Errorf("it has changed: got %s, want %s", got, id)
	}
	var c struct {
		Created      time.Time `json:"created"`
		OS           string    `json:"os"`
		Architecture string    `json:"architecture"`
		Variant      string    `json:"variant"`
		Config       struct {
			Labels map[string]string `json:"Labels"`
		} `json:"config"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	img.Created, img.Labels = c.Created, c.Config.Labels
	p := pinset.Platform(c.OS + "/" + c.Architecture)
	if c.Variant != "" {
		p += pinset.Platform("/" + c.Variant)
	}
	if p.Validate() == nil && len(p) <= maxPlatform && pinset.Printable(string(p)) {
		img.Platform = p
	}
	return nil
}
