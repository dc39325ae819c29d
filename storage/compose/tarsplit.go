package compose

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/vbatts/tar-split/tar/storage"

	"github.com/pinbox/pinbox/storage/codec"
)

// maxSegment bounds what a splitter holds of a stream, in bytes.
const maxSegment = 1 << 20

// splitter reads a tar stream and records all of it but the contents of files:
// with the files, the record gives back the very stream. containers/storage
// keeps one for every layer, as gzipped lines of JSON: vbatts/tar-split.
//
// It differs from that package's own recorder in that a file whose content is
// not to be found under its name later (sparse, or replaced further down the
// stream) is kept in the record, where the other fails or loses it.
type splitter struct {
	src     io.Reader
	zip     *gzip.Writer
	lines   *json.Encoder
	pos     int
	raw     []byte // read and not recorded yet
	content bool   // what is being read need not be recorded
	err     error
}

func newSplitter(src io.Reader, out io.Writer) (*splitter, error) {
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	return &splitter{src: src, zip: zip, lines: json.NewEncoder(zip)}, nil
}

func (s *splitter) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	if !s.content {
		if len(s.raw)+n > maxSegment {
			s.segment()
		}
		s.raw = append(s.raw, p[:n]...)
	}
	return n, err
}

// segment records what was read since the last entry.
func (s *splitter) segment() {
	if len(s.raw) > 0 {
		s.add(storage.Entry{Type: storage.SegmentType, Payload: s.raw})
		s.raw = s.raw[:0]
	}
}

func (s *splitter) add(e storage.Entry) {
	e.Position = s.pos
	s.pos++
	if err := s.lines.Encode(e); s.err == nil {
		s.err = err
	}
}

// file records an entry of size bytes that stands in the tree under its name.
// read consumes the content, which is left out of the record. Entries without
// content need no mention: their headers are recorded as bytes, and a name that
// is mentioned twice makes the record unreadable.
func (s *splitter) file(name string, size int64, tr io.Reader, read func(io.Reader) error) error {
	if size == 0 {
		return nil
	}
	s.segment()
	crc := codec.NewCRC64()
	s.content = true
	err := read(&tee{src: tr, sum: crc})
	s.content = false
	if err != nil {
		return err
	}
	e := storage.Entry{Type: storage.FileType, Size: size, Payload: crc.Sum(nil)}
	e.SetName(name)
	s.add(e)
	return s.err
}

// close records the padding at the end of the stream.
func (s *splitter) close() error {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return err
	}
	s.segment()
	if s.err != nil {
		return s.err
	}
	return s.zip.Close()
}

type tee struct {
	src io.Reader
	sum hash.Hash
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.src.Read(p)
	t.sum.Write(p[:n])
	return n, err
}

// splitAgain reads a layer for its record alone, and keeps the contents of the
// given entries in it.
func splitAgain(ctx context.Context, blob Blob, keep map[int]bool, spool *os.File) error {
	if err := spool.Truncate(0); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	st, err := openStream(ctx, blob.Open)
	if err != nil {
		return err
	}
	defer st.close()
	split, err := newSplitter(st, spool)
	if err != nil {
		return err
	}
	tr := tar.NewReader(split)
	for entry := 0; ; entry++ {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if keep[entry] || isSparse(hdr) || !hasContent(hdr) {
			continue
		}
		err = split.file(hdr.Name, hdr.Size, tr, func(body io.Reader) error {
			_, err := io.Copy(io.Discard, body)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := split.close(); err != nil {
		return err
	}
	return st.verify(blob.DiffID)
}
