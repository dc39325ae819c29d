package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/image"
)

// sigstoreType is the media type of what cosign has signed.
const sigstoreType = "application/vnd.dev.cosign.simplesigning.v1+json"

// sigstorePrefix marks a signature that is none of OpenPGP: Blob of containers/
// image, internal/signature.
const sigstorePrefix = "\x00sigstore-json\n"

// sigstore is a signature of cosign as a store keeps it: containers/image,
// internal/signature/sigstore.go.
type sigstore struct {
	MIMEType    string            `json:"mimeType"`
	Payload     []byte            `json:"payload"`
	Annotations map[string]string `json:"annotations"`
}

func (s sigstore) encode() ([]byte, error) {
	content, err := json.Marshal(s)
	return append([]byte(sigstorePrefix), content...), err
}

// signatures of an image, in the form in which a store keeps them. Nobody has judged
// them yet: that is for policies.
func (s *imageSource) signatures(
	ctx context.Context, img *image.UnparsedImage, manifest digest.Digest,
) (all [][]byte, err error) {
	if s.blobs != nil {
		if all, err = s.blobs.signatures(manifest); err != nil {
			err = s.explain(ctx, err)
		}
		return all, err
	}
	untrusted, err := img.UntrustedSignatures(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	for _, one := range untrusted {
		switch one := any(one).(type) { // their package is the library's own
		case interface{ UntrustedSignature() []byte }:
			all = append(all, one.UntrustedSignature())
		case interface {
			UntrustedMIMEType() string
			UntrustedPayload() []byte
			UntrustedAnnotations() map[string]string
		}:
			encoded, err := sigstore{one.UntrustedMIMEType(), one.UntrustedPayload(), one.UntrustedAnnotations()}.encode()
			if err != nil {
				return nil, err
			}
			all = append(all, encoded)
		default:
			return nil, fmt.Errorf("signature of a kind that containers/image did not have before: %T", one)
		}
	}
	return all, nil
}

// attachments reads the image that cosign stores beside another one: its layers are
// what was signed, and their annotations the signatures.
func attachments(p blobStore, d digest.Digest) (all [][]byte, err error) {
	var attached imgspecv1.Manifest
	content, err := read(p, d)
	if err == nil {
		err = json.Unmarshal(content, &attached)
	}
	if err != nil {
		return nil, fmt.Errorf("signatures in %s: %w", d, err)
	}
	for _, l := range attached.Layers {
		if l.MediaType != sigstoreType {
			continue
		}
		payload, err := read(p, l.Digest)
		if err != nil {
			return nil, fmt.Errorf("signatures in %s: %w", d, err)
		}
		encoded, err := sigstore{l.MediaType, payload, l.Annotations}.encode()
		if err != nil {
			return nil, err
		}
		all = append(all, encoded)
	}
	return all, nil
}

// read gives a document that is what its digest says.
func read(p blobStore, d digest.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	r, _, err := p.open(d)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if got := digest.FromBytes(content); got != d {
		return nil, fmt.Errorf("%w: it is %s, not %s", ErrDigest, got, d)
	}
	return content, nil
}

// simple are those signatures that are of OpenPGP.
func simple(signatures [][]byte) (all [][]byte) {
	for _, s := range signatures {
		if !bytes.HasPrefix(s, []byte{0}) {
			all = append(all, s)
		}
	}
	return all
}
