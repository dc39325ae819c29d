package audit

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/pinbox/pinbox/storage/codec"
	"github.com/pinbox/pinbox/storage/layout"
)

// maxSplitLine is the limit for a line of a tar-split file, in bytes. The largest one is a segment of
// 1 MiB in base64 (storage/compose).
const maxSplitLine = 4 << 20

// SplitLine is a part of a layer's tar stream: the content of a file that is in the layer's folder, or
// a segment, the bytes between such contents.
type SplitLine struct {
	// Name of the file as in the tar stream, "" for a segment.
	Name string
	// Size of the file in bytes, which is not 0.
	Size int64
	// Payload is the CRC-64 of the file, or the bytes of the segment. It is valid until the next call.
	Payload []byte
}

// Split reads the tar-split file of a layer. It holds one line at a time.
type Split struct {
	name  string
	file  fs.File
	zip   io.ReadCloser
	lines *bufio.Scanner
	// payload is that of the last line.
	payload []byte
}

// OpenSplit opens the tar-split file of a layer. files is the graph root.
func OpenSplit(files fs.FS, id string) (*Split, error) {
	name := layout.TarSplitFile(id)
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	zip, err := codec.NewGzipReader(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &Split{name: name, file: file, zip: zip, lines: bufio.NewScanner(zip)}
	s.lines.Buffer(nil, maxSplitLine)
	return s, nil
}

// Close closes the file.
func (s *Split) Close() {
	_ = s.zip.Close()
	_ = s.file.Close()
}

// Next returns the next part of the stream, at its end io.EOF. It leaves out files without content.
func (s *Split) Next() (SplitLine, error) {
	for s.lines.Scan() {
		line, err := decodeSplit(s.lines.Bytes(), s.payload)
		if err != nil {
			return SplitLine{}, invalid("%s: %w", s.name, err)
		}
		s.payload = line.Payload
		if line.NameRaw != nil {
			line.Name = string(line.NameRaw)
		}
		switch {
		case line.Type == segmentType:
			return SplitLine{Payload: line.Payload}, nil
		case line.Type != fileType:
			return SplitLine{}, invalid("%s: a line of type %d", s.name, line.Type)
		case line.Size != 0:
			if line.Name == "" || line.Size < 0 {
				return SplitLine{}, invalid("%s: a file %q of %d bytes", s.name, line.Name, line.Size)
			}
			return SplitLine{Name: line.Name, Size: line.Size, Payload: line.Payload}, nil
		}
	}
	if err := s.lines.Err(); err != nil {
		return SplitLine{}, fmt.Errorf("%s: %w", s.name, err)
	}
	return SplitLine{}, io.EOF
}

const (
	fileType    = 1
	segmentType = 2
)

// Path returns the path of a layer's file below the graph root. As in a container, it cannot lead out of
// the layer's folder.
func (l SplitLine) Path(id string) string {
	return path.Join(layout.OverlayDir, id, "diff", path.Join("/", l.Name))
}

// Open opens a layer's file, which must have the size of the line. files must not follow symbolic links.
func (l SplitLine) Open(files fs.FS, id string) (fs.File, error) {
	name := l.Path(id)
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() != l.Size) {
		err = invalid("%q has mode %v and %d bytes, want a file of %d", name, fi.Mode(), fi.Size(), l.Size)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
