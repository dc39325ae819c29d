package compose

import (
	"bytes"
	"io"
	"os"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// scratchSize is up to which size a scratch is in memory, in bytes. Most layers have a smaller tar-split file, and to
// make a file for it takes longer than to write it.
const scratchSize = 64 << 10

// scratch keeps what is written until it is read: in memory, or if it is large, in an unnamed file.
type scratch struct {
	tmp    string // the folder of the file
	buffer []byte
	file   *os.File // nil while the content is in buffer
}

func (s *scratch) Write(p []byte) (int, error) {
	if s.file != nil {
		return s.file.Write(p)
	}
	s.buffer = append(s.buffer, p...)
	if len(s.buffer) <= scratchSize {
		return len(p), nil
	}
	file, err := atomicfile.Unnamed(s.tmp)
	if err != nil {
		return 0, err
	}
	s.file = file
	_, err = file.Write(s.buffer)
	s.buffer = nil
	return len(p), err
}

// content returns a reader of what was written. Nothing is written afterwards.
func (s *scratch) content() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.buffer), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

// Close frees what was written. The scratch is empty then, and can be written again.
func (s *scratch) Close() (err error) {
	if s.file != nil {
		err = s.file.Close()
	}
	s.buffer, s.file = s.buffer[:0], nil
	return err
}
