package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// sigstorePrefix marks a signature of sigstore; one without a prefix is of OpenPGP: Blob in internal/signature of
// containers/image.
const sigstorePrefix = "\x00sigstore-json\n"

// maxAttached is how many signatures of an image are described.
const maxAttached = 100

// attached describes the signatures of an image. metadata is that of its record.
func attached(r *records, locked pinset.LockedImage, metadata string) (all []Attached, err error) {
	if metadata == "" { // other programs leave it out
		return nil, nil
	}
	var sizes compose.SignatureSizes
	if err := json.Unmarshal([]byte(metadata), &sizes); err != nil {
		return nil, err
	}
	for _, manifest := range slices.Sorted(maps.Keys(sizes.Each)) {
		if err := manifest.Validate(); err != nil {
			return all, err
		}
		rest, err := r.read(locked.Config.Encoded(), layout.SignatureKey(manifest))
		if err != nil {
			return all, err
		}
		for _, size := range sizes.Each[manifest] {
			if size < 0 || size > len(rest) {
				return all, errors.New("they are truncated")
			}
			if len(all) == maxAttached {
				return all, fmt.Errorf("there are more than %d", maxAttached)
			}
			one, err := describe(rest[:size])
			if err != nil {
				return all, err
			}
			pin, err := pinset.ParseImage(locked.Pin)
			if err != nil {
				return all, err
			}
			ours := []digest.Digest{locked.Manifest, locked.Index, pin.Digest}
			one.Other = one.Manifest == "" || !slices.Contains(ours, one.Manifest)
			all = append(all, one)
			rest = rest[size:]
		}
	}
	return all, nil
}

// payload is what is signed of an image, in both forms: container-signature.md of containers/image.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Manifest digest.Digest `json:"docker-manifest-digest"`
		} `json:"image"`
	} `json:"critical"`
}

// describe describes a signature as containers/storage stores it.
func describe(text []byte) (Attached, error) {
	one := Attached{Form: "sigstore", Check: NotChecked}
	var signed []byte
	if rest, ok := bytes.CutPrefix(text, []byte(sigstorePrefix)); ok {
		var s struct {
			Payload []byte `json:"payload"`
		}
		if err := json.Unmarshal(rest, &s); err != nil {
			return one, err
		}
		signed = s.Payload
	} else {
		var err error
		if one.Keys, signed, err = describeMessage(text); err != nil {
			return one, err
		}
		one.Form = "OpenPGP"
	}
	var p payload
	if err := json.Unmarshal(signed, &p); err != nil {
		return one, err
	}
	one.Reference, one.Manifest = p.Critical.Identity.Reference, p.Critical.Image.Manifest
	return one, nil
}
