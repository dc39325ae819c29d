package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/image"
)

// sigstoreType is the media type of a payload that cosign has signed.
const sigstoreType = "application/vnd.dev.cosign.simplesigning.v1+json"

// sigstorePrefix marks a signature of sigstore; one without a prefix is of OpenPGP: Blob in
// internal/signature of containers/image.
const sigstorePrefix = "\x00sigstore-json\n"

// sigstore is a signature of cosign as containers/storage stores it:
// internal/signature/sigstore.go of containers/image.
type sigstore struct {
	MIMEType    string            `json:"mimeType"`
	Payload     []byte            `json:"payload"`
	Annotations map[string]string `json:"annotations"`
}

func (s sigstore) encode() ([]byte, error) {
	content, err := json.Marshal(s)
	return append([]byte(sigstorePrefix), content...), err
}

// signed checks an image against the client's policy, and returns its signatures. Those of an image in a registry are
// where its manifest is.
func (s *imageSource) signed(
	ctx context.Context, c *Client, d digest.Digest, manifest document,
) (signatures [][]byte, err error) {
	from := s.ImageSource
	if s.isRemote() {
		turn := s.turn()
		r, err := turn.next(ctx)
		if err != nil {
			return nil, err
		}
		defer turn.end()
		from = r.src
	}
	img := verifiedImage{image.UnparsedInstance(from, &d), manifest}
	if err := c.checkPolicy(ctx, img, s.pinned); err != nil {
		return nil, err
	}
	return s.signatures(ctx, img.UnparsedImage, d)
}

// signatures returns the signatures of an image, as containers/storage stores them, without
// verifying them: checkPolicy does.
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
		switch one := any(one).(type) { // their types are in an internal package
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
			return nil, fmt.Errorf("signature of an unknown type: %T", one)
		}
	}
	return all, nil
}

// attachedSignatures reads the image in which cosign stores the signatures of another image: the
// layers are the payloads, and their annotations the signatures. d is the digest of its manifest.
func attachedSignatures(blobs blobStore, d digest.Digest) (all [][]byte, err error) {
	var attached imgspecv1.Manifest
	content, err := readVerified(blobs, d)
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
		payload, err := readVerified(blobs, l.Digest)
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

// readVerified reads a document of at most maxManifest bytes and compares it with its digest.
func readVerified(blobs blobStore, d digest.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	r, _, err := blobs.open(d)
	if err != nil {
		return nil, err
	}
	content, err := readManifest(r, d.String())
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if got := d.Algorithm().FromBytes(content); got != d {
		return nil, fmt.Errorf("%w: it is %s, not %s", ErrDigest, got, d)
	}
	return content, nil
}

// openPGP returns the signatures that are of OpenPGP.
func openPGP(signatures [][]byte) (all [][]byte) {
	for _, s := range signatures {
		if !bytes.HasPrefix(s, []byte{0}) {
			all = append(all, s)
		}
	}
	return all
}
