package signature

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// isPacket reports whether a text begins as each OpenPGP packet does: RFC 9580, 4.2.
func isPacket(text []byte) bool { return len(text) > 0 && text[0]&0x80 != 0 }

// dearmor removes the armor of a signature.
func dearmor(text []byte) ([]byte, error) {
	block, err := armor.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(block.Body, MaxSize))
}

// checkOpenPGP checks the first signature whose key is known, as the library does.
func (k Keys) checkOpenPGP(binary []byte) (check, error) {
	s, err := k.firstKnown(binary)
	if err != nil {
		return nil, err
	}
	if s.Hash != crypto.SHA256 && s.Hash != crypto.SHA384 && s.Hash != crypto.SHA512 {
		return nil, fmt.Errorf("%w: the hash algorithm is %s, want SHA-2; gpg has --digest-algo", ErrInvalid, s.Hash)
	}
	config := &packet.Config{}
	if at := Behind(binary); !at.IsZero() {
		config.Time = func() time.Time { return at }
	}
	return func(signed io.Reader) error {
		_, err := openpgp.CheckDetachedSignature(k.openPGP, signed, bytes.NewReader(binary), config)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil
	}, nil
}

func (k Keys) firstKnown(binary []byte) (*packet.Signature, error) {
	for packets := packet.NewReader(bytes.NewReader(binary)); ; {
		p, err := packets.Next()
		if errors.Is(err, io.EOF) {
			return nil, ErrOtherKey
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		s, ok := p.(*packet.Signature)
		if !ok || s.IssuerKeyId == nil {
			return nil, fmt.Errorf("%w: it has a packet that is no signature by a key", ErrInvalid)
		}
		if len(k.openPGP.KeysByIdUsage(*s.IssuerKeyId, packet.KeyFlagSign)) > 0 {
			return s, nil
		}
	}
}

// Behind returns the earliest time that it can be, if the clock is before that: when an OpenPGP signature and
// this program were made. Expiry is then judged as of that time. Else it returns 0; the other forms do not
// expire. A node without a battery for its clock may start in 1970.
func Behind(signature []byte) time.Time {
	binary := signature
	if formOf(signature) == formArmor {
		binary, _ = dearmor(signature) // the check reports an error
	}
	if !isPacket(binary) {
		return time.Time{}
	}
	earliest := built()
	for packets := packet.NewReader(bytes.NewReader(binary)); ; {
		p, err := packets.Next()
		if err != nil { // the check reports it
			break
		}
		if s, ok := p.(*packet.Signature); ok && s.CreationTime.After(earliest) {
			earliest = s.CreationTime
		}
	}
	if time.Now().After(earliest) {
		return time.Time{}
	}
	return earliest
}

// built is the time of the commit that this program was built from, 0 if that is unknown.
func built() (at time.Time) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return at
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			at, _ = time.Parse(time.RFC3339, s.Value) // 0 if it is another form
		}
	}
	return at
}
