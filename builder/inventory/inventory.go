package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// Version is the version of the form of an inventory.
const Version = 1

// Inventory is what an appliance, a delta, a medium or a lock holds.
type Inventory struct {
	Version int `json:"version"`
	// Images are in the order of their pins.
	Images []Image `json:"images"`
	// Documents are the store and the files beside it, by their names.
	Documents []Document `json:"documents"`
	// Keys is the file of the keys with which signatures of documents were verified; "" if none was verified.
	Keys string `json:"keys,omitempty"`
	// Unread lists what could not be read, and why.
	Unread []string `json:"unread,omitempty"`

	artifacts []pinset.LockedArtifact
}

// Image is an image of the lock.
type Image struct {
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

// Checked says which signatures the caller has verified.
type Checked struct {
	// Keys is the file of the keys.
	Keys string
	// Good are the documents with good signatures, as builder/verify returns them.
	Good []string
}

// Read reads the inventory of a folder, a live ISO, a medium or a lock.
func Read(ctx context.Context, r *release.Release, checked Checked) (Inventory, error) {
	lock, err := r.Lock()
	if err != nil {
		return Inventory{}, err
	}
	v := Inventory{Version: Version, Keys: checked.Keys, artifacts: lock.Artifacts}
	for _, locked := range lock.Images {
		v.Images = append(v.Images, imageOf(locked, lock.Platform))
	}
	if err := v.readStore(ctx, r, lock); err != nil {
		return Inventory{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	if err := v.readDocuments(ctx, r, checked.Good); err != nil {
		return Inventory{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	return v, nil
}

func imageOf(locked pinset.LockedImage, platform pinset.Platform) Image {
	img := Image{
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
