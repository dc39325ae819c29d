package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
)

// splitEntry is a line of a tar-split file: the type Entry of vbatts/tar-split, tar/storage.
type splitEntry struct {
	Type    int    `json:"type"`
	Name    string `json:"name"`
	NameRaw []byte `json:"name_raw"` // instead of a name that is not UTF-8
	Size    int64  `json:"size"`
	Payload []byte `json:"payload"`
}

// decodeSplit decodes a line. The payload may be in the capacity of buf.
func decodeSplit(line, buf []byte) (e splitEntry, err error) {
	if e, ok := scanSplit(line, buf); ok {
		return e, nil
	}
	err = json.Unmarshal(line, &e)
	return e, err
}

// scanSplit decodes a line as encoding/json writes it for nearly all files, several times as fast as that reads it.
// Any other line is not ok, whether it is valid or not.
func scanSplit(line, buf []byte) (e splitEntry, ok bool) {
	s := scanner{rest: line, ok: true}
	s.skip(`{"type":`)
	e.Type = int(s.number())
	if s.has(`,"name":"`) {
		e.Name = string(s.text())
	}
	if s.has(`,"size":`) {
		e.Size = s.number()
	}
	s.skip(`,"payload":"`)
	packed := s.text()
	s.skip(`,"position":`)
	s.number()
	s.skip("}")
	if !s.ok || len(s.rest) > 0 {
		return splitEntry{}, false
	}
	buf = slices.Grow(buf[:0], base64.StdEncoding.DecodedLen(len(packed)))
	n, err := base64.StdEncoding.Decode(buf[:cap(buf)], packed)
	e.Payload = buf[:n]
	return e, err == nil
}

// scanner reads JSON of few forms. Of any other it is not ok.
type scanner struct {
	rest []byte
	ok   bool
}

func (s *scanner) has(prefix string) (ok bool) {
	s.rest, ok = bytes.CutPrefix(s.rest, []byte(prefix))
	return ok
}

func (s *scanner) skip(prefix string) { s.ok = s.has(prefix) && s.ok }

// number reads a natural number of up to 18 digits.
func (s *scanner) number() (n int64) {
	digits := 0
	for digits < min(len(s.rest), 18) && s.rest[digits] >= '0' && s.rest[digits] <= '9' {
		n = 10*n + int64(s.rest[digits]-'0')
		digits++
	}
	s.ok = s.ok && digits > 0 && (digits == 1 || s.rest[0] != '0')
	s.rest = s.rest[digits:]
	return n
}

// text reads the rest of a string of printable ASCII without escapes.
func (s *scanner) text() []byte {
	end := bytes.IndexByte(s.rest, '"')
	if end < 0 {
		s.ok = false
		return nil
	}
	text := s.rest[:end]
	for _, c := range text {
		if c < ' ' || c > '~' || c == '\\' {
			s.ok = false
		}
	}
	s.rest = s.rest[end+1:]
	return text
}
