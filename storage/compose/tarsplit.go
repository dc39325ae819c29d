package compose

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/vbatts/tar-split/tar/storage"

	"github.com/pinbox/pinbox/storage/codec"
)

// maxSegment is the limit for the bytes of a stream that a splitter buffers.
const maxSegment = 1 << 20

// splitter reads a tar stream and writes its tar-split file, gzipped lines of JSON: all of the
// stream except the contents of files, so that the stream can be restored from it and the files.
// containers/storage has one for each layer: vbatts/tar-split.
//
// Unlike the writer of that package, it puts the contents of files that cannot be found under their
// names later (sparse files, and files that the stream replaces) into the tar-split file; the other
// one fails or loses them.
type splitter struct {
	src     io.Reader
	zip     *gzip.Writer
	lines   *json.Encoder
	pos     int
	raw     []byte // read, but not written yet
	content bool   // the content of a file is being read
	failed  bool   // src could not be read to its end
	err     error
}

// spareZips are the compressors of splitters that have ended, of 1 MB each.
var spareZips sync.Pool

func newSplitter(src io.Reader, out io.Writer) (*splitter, error) {
	zip, ok := spareZips.Get().(*gzip.Writer)
	if !ok {
		var err error
		if zip, err = gzip.NewWriterLevel(nil, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	zip.Reset(out)
	return &splitter{src: src, zip: zip, lines: json.NewEncoder(zip)}, nil
}

func (s *splitter) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	s.failed = s.failed || err != nil && !errors.Is(err, io.EOF)
	if !s.content {
		if len(s.raw)+n > maxSegment {
			s.segment()
		}
		s.raw = append(s.raw, p[:n]...)
	}
	return n, err
}

// segment writes the bytes that were read since the last entry.
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

// file writes the entry for a file of size bytes, whose content can be found under its name. read
// reads the content. An empty file needs no entry: its header is part of a segment, and a reader
// refuses a file in which a name occurs twice.
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

// close writes the padding at the end of the stream.
func (s *splitter) close() error {
	if _, err := io.Copy(io.Discard, s); err != nil {
		return err
	}
	s.segment()
	if s.err != nil {
		return s.err
	}
	if err := s.zip.Close(); err != nil {
		return err
	}
	s.zip.Reset(nil)
	spareZips.Put(s.zip)
	return nil
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

// splitAgain reads a layer again and writes its tar-split file to out anew, with the contents of the entries in keep.
func splitAgain(b *budget, blob Blob, keep map[int]bool, out *scratch) error {
	if err := out.Close(); err != nil {
		return err
	}
	st, err := openStream(b, blob)
	if err != nil {
		return err
	}
	defer st.close()
	split, err := newSplitter(st, out)
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
		if keep[entry] || IsSparse(hdr) || !hasContent(hdr) {
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
