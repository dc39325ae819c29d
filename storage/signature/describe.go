package signature

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

	"aead.dev/minisign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// Description says who a signature claims to be by. Nothing of it is verified.
type Description struct {
	// Form is OpenPGP, minisign or cosign.
	Form string `json:"form"`
	// Keys are the IDs of the keys, as the tool shows them. A signature of cosign names none.
	Keys []string `json:"keys,omitempty"`
}

// Describe describes a detached signature.
func Describe(signature []byte) (Description, error) {
	if err := CheckSize(signature); err != nil {
		return Description{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var d Description
	var err error
	switch form := formOf(signature); {
	case form == formMinisign:
		var s minisign.Signature
		err = s.UnmarshalText(signature)
		d = Description{"minisign", []string{fmt.Sprintf("%016X", s.KeyID)}}
	case form == formArmor, isPacket(signature):
		if form == formArmor {
			signature, err = dearmor(signature)
		}
		if err == nil {
			d, _, err = describePackets(bytes.NewReader(signature), 0)
		}
	default:
		d.Form = "cosign"
		_, err = base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(signature)))
	}
	if err != nil {
		return Description{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return d, nil
}

// DescribeMessage describes an OpenPGP message that is signed, as those are with which images are signed, and returns
// what it says was signed. Nothing of it is verified.
func DescribeMessage(message []byte) (d Description, signed []byte, err error) {
	if err = CheckSize(message); err == nil {
		d, signed, err = describePackets(bytes.NewReader(message), 0)
	}
	if err != nil {
		return Description{}, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return d, signed, nil
}

// maxNested is how deep messages are in compressed ones: gpg makes one in another.
const maxNested = 2

// describePackets reads at most MaxSize bytes of what a message contains.
func describePackets(in io.Reader, nested int) (d Description, signed []byte, err error) {
	d.Form = "OpenPGP"
	for packets := packet.NewReader(io.LimitReader(in, MaxSize)); ; {
		p, err := packets.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return d, nil, err
		}
		switch p := p.(type) {
		case *packet.OnePassSignature:
			d.add(p.KeyId)
		case *packet.Signature:
			if p.IssuerKeyId != nil {
				d.add(*p.IssuerKeyId)
			}
		case *packet.LiteralData:
			if signed, err = io.ReadAll(io.LimitReader(p.Body, MaxSize)); err != nil {
				return d, nil, err
			}
		case *packet.Compressed:
			if nested == maxNested {
				return d, nil, errors.New("it is compressed several times")
			}
			return describePackets(p.Body, nested+1)
		}
	}
	if len(d.Keys) == 0 {
		return d, nil, errors.New("it names no key")
	}
	return d, signed, nil
}

func (d *Description) add(key uint64) {
	if id := fmt.Sprintf("%016X", key); !slices.Contains(d.Keys, id) {
		d.Keys = append(d.Keys, id)
	}
}
