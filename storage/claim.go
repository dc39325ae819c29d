package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/signature"
)

// Claim is what the signature of an image says of itself.
type Claim struct {
	// Form is sigstore or OpenPGP, and Keys are the IDs of the keys, of which sigstore names none.
	Form string
	Keys []string
	// Type of the claim, and the Name and the Digest that were signed.
	Type, Name string
	Digest     digest.Digest
}

// openPGPForm is the form of signatures of OpenPGP.
const openPGPForm = "OpenPGP"

// UntrustedClaim reads a signature as containers/storage stores it. Nothing of it is verified.
func UntrustedClaim(sig []byte) (c Claim, err error) {
	var content []byte
	if envelope, ok := bytes.CutPrefix(sig, []byte(sigstorePrefix)); ok {
		var s sigstore
		err = json.Unmarshal(envelope, &s)
		c.Form, content = "sigstore", s.Payload
	} else {
		c.Form = openPGPForm
		c.Keys, content, err = describeMessage(sig)
	}
	if err != nil {
		return c, err
	}
	return c, c.read(content)
}

// read reads what was signed, which has one form in both: container-signature.md of containers/image.
func (c *Claim) read(content []byte) error {
	var p struct {
		Critical struct {
			Type  string
			Image struct {
				Digest digest.Digest `json:"docker-manifest-digest"`
			}
			Identity struct {
				Name string `json:"docker-reference"`
			}
		}
	}
	err := json.Unmarshal(content, &p)
	c.Type, c.Name, c.Digest = p.Critical.Type, p.Critical.Identity.Name, p.Critical.Image.Digest
	return err
}

// OfOpenPGP returns an error unless the claim is one as OpenPGP signs them: docs/atomic-signature.md in
// containers/image.
func (c Claim) OfOpenPGP() error {
	if c.Form != openPGPForm || c.Type != "atomic container signature" {
		return fmt.Errorf("its type is %q", c.Type)
	}
	return nil
}

// describeMessage describes an OpenPGP message that is signed, as those are with which images are signed: it returns
// the IDs of the keys, as gpg shows them, and what it says was signed. Nothing of it is verified.
func describeMessage(message []byte) (keys []string, signed []byte, err error) {
	err = OpenPGP(func() (err error) {
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
