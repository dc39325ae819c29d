package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// sigstorePrefix marks a signature of sigstore; one without a prefix is of OpenPGP: Blob in internal/signature of
// containers/image.
const sigstorePrefix = "\x00sigstore-json\n"

// maxAttached is how many signatures of an image are described.
const maxAttached = 100

// attached describes the signatures of an image, which has these digests. metadata is that of its record.
func attached(r *records, image string, own []digest.Digest, metadata string) (all []Attached, err error) {
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
		rest, err := r.read(image, layout.SignatureKey(manifest))
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
			one.Other = one.Manifest == "" || !slices.Contains(own, one.Manifest)
			all = append(all, one)
			rest = rest[size:]
		}
	}
	return all, nil
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
	var payload struct { // in both forms: container-signature.md of containers/image
		Critical struct {
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
			Image struct {
				Manifest digest.Digest `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(signed, &payload); err != nil {
		return one, err
	}
	one.Reference, one.Manifest = payload.Critical.Identity.Reference, payload.Critical.Image.Manifest
	return one, nil
}

// describeMessage describes an OpenPGP message that is signed, as those are with which images are signed: it returns
// the IDs of the keys, as gpg shows them, and what it says was signed. Nothing of it is verified.
func describeMessage(message []byte) (keys []string, signed []byte, err error) {
	err = storage.OpenPGP(func() (err error) {
		if err = signature.CheckSize(message); err == nil {
			keys, signed, err = describePackets(bytes.NewReader(message), 0)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", signature.ErrInvalid, err)
	}
	return keys, signed, nil
}

// maxNested is how deep messages are in compressed ones: gpg makes one in another.
const maxNested = 2

// describePackets reads at most signature.MaxSize bytes of what a message contains.
func describePackets(in io.Reader, nested int) (keys []string, signed []byte, err error) {
	add := func(key uint64) {
		if id := fmt.Sprintf("%016X", key); !slices.Contains(keys, id) {
			keys = append(keys, id)
		}
	}
	for packets := packet.NewReader(io.LimitReader(in, signature.MaxSize)); ; {
		p, err := packets.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		switch p := p.(type) {
		case *packet.OnePassSignature:
			add(p.KeyId)
		case *packet.Signature:
			if p.IssuerKeyId != nil {
				add(*p.IssuerKeyId)
			}
		case *packet.LiteralData:
			if signed, err = io.ReadAll(io.LimitReader(p.Body, signature.MaxSize)); err != nil {
				return nil, nil, err
			}
		case *packet.Compressed:
			if nested == maxNested {
				return nil, nil, errors.New("it is compressed several times")
			}
			return describePackets(p.Body, nested+1)
		}
	}
	if len(keys) == 0 {
		return nil, nil, errors.New("it names no key")
	}
	return keys, signed, nil
}
