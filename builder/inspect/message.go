package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/signature"
)

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
