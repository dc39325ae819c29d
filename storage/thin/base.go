package thin

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/codec"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// source is a content of a base.
type source struct {
	layer int // number in the index
	file  int // number in the layer's tar-split file, from 1; 0 is the skeleton
}

// record describes a file of a layer.
type record struct {
	name string
	size int64
	sum  uint64 // CRC-64, as in the tar-split file
}

// baseLayer reads the contents of a layer of a store.
type baseLayer struct {
	of        *bases
	store, id string
	files     *squashfs.Reader

	records []record // once they were needed
	opened  openedFile
}

// openedFile is the file that was last read.
type openedFile struct {
	number int
	file   fs.File
}

func (l *baseLayer) damaged(name string, err error) error {
	return &BaseError{Store: l.store, Layer: l.id, Path: name, Others: l.of.others(l), Err: err}
}

// record returns the record of a file.
func (l *baseLayer) record(number int) (record, error) {
	if l.records == nil {
		all, err := readRecords(l.files, l.id)
		if err != nil {
			return record{}, l.damaged("", err)
		}
		l.records = all
	}
	if number < 1 || number > len(l.records) {
		return record{}, damaged("file %d of layer %s, which has %d", number, l.id, len(l.records))
	}
	return l.records[number-1], nil
}

// readRecords reads the records of the files of a layer.
func readRecords(files fs.FS, id string) ([]record, error) {
	all := []record{}
	err := readSplit(files, id, func([]byte) {}, func(r record) { all = append(all, r) })
	return all, err
}

// readSplit reads the tar-split file of a layer.
func readSplit(files fs.FS, id string, segment func([]byte), file func(record)) error {
	split, err := audit.OpenSplit(files, id)
	if err != nil {
		return err
	}
	defer split.Close()
	for {
		line, err := split.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if line.Name == "" {
			segment(line.Payload)
			continue
		}
		r := record{name: line.Name, size: line.Size}
		if len(line.Payload) == 8 {
			r.sum = binary.BigEndian.Uint64(line.Payload)
		}
		file(r)
	}
}

// open opens a file of the layer at its first byte.
func (l *baseLayer) open(number int) (fs.File, record, error) {
	r, err := l.record(number)
	if err != nil {
		return nil, r, err
	}
	f, err := r.open(l.files, l.id)
	if err != nil {
		return nil, r, l.damaged(r.name, err)
	}
	return f, r, nil
}

// open opens the file of a layer.
func (r record) open(files fs.FS, id string) (fs.File, error) {
	return audit.SplitLine{Name: r.name, Size: r.size}.Open(files, id)
}

// read fills p from an offset of a content. It is fast if the calls for a content follow each other.
func (l *baseLayer) read(number int, p []byte, at int64) error {
	if number == 0 {
		s := l.of.skeletonOf(l)
		if at < s.at || s.split == nil {
			if l.of.rewinds++; l.of.rewinds > maxRewinds {
				return damaged("a dictionary needs the skeletons of base layers %d times, the last of %s", l.of.rewinds, l.id)
			}
		}
		err := s.read(p, at)
		if err != nil && !errors.Is(err, ErrDamaged) {
			err = l.damaged("", err)
		}
		return err
	}
	r, err := l.record(number)
	if err != nil {
		return err
	}
	if at < 0 || at > r.size-int64(len(p)) {
		return damaged("bytes %d to %d of %q in layer %s, which has %d", at, at+int64(len(p)), r.name, l.id, r.size)
	}
	if l.opened.number != number {
		l.closeFile()
		if l.opened.file, _, err = l.open(number); err != nil {
			return err
		}
		l.opened.number = number
	}
	if _, err = l.opened.file.(io.Seeker).Seek(at, io.SeekStart); err == nil {
		_, err = io.ReadFull(l.opened.file, p)
	}
	if err != nil {
		l.closeFile()
		return l.damaged(r.name, err)
	}
	return nil
}

func (l *baseLayer) closeFile() {
	if l.opened.number > 0 {
		_ = l.opened.file.Close()
		l.opened = openedFile{}
	}
}

// check compares a content with its record.
func (l *baseLayer) check(number int) error {
	if number == 0 {
		if _, err := readRecords(l.files, l.id); err != nil {
			return l.damaged("", err)
		}
		return nil
	}
	f, r, err := l.open(number)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := codec.NewCRC64()
	if _, err := io.Copy(sum, f); err != nil {
		return l.damaged(r.name, err)
	}
	if sum.Sum64() != r.sum {
		return l.damaged(r.name, errors.New("its CRC-64 is not that of the tar-split file"))
	}
	return nil
}

// skeleton reads all bytes of a layer's tar stream that are not in its files. It holds a window of them,
// and reads forward; to go back, it starts again.
type skeleton struct {
	files fs.FS
	id    string
	split *audit.Split
	at    int64  // of the window
	held  []byte // the window
}

// skeletonOf returns the skeleton of a layer, and forgets the one of another layer.
func (b *bases) skeletonOf(l *baseLayer) *skeleton {
	if b.skeleton.id != l.id {
		b.skeleton.close()
		b.skeleton = skeleton{files: l.files, id: l.id}
	}
	return &b.skeleton
}

func (s *skeleton) read(p []byte, at int64) error {
	if at < s.at || s.split == nil {
		s.close()
		split, err := audit.OpenSplit(s.files, s.id)
		if err != nil {
			return err
		}
		s.split, s.at, s.held = split, 0, s.held[:0]
	}
	for end := at + int64(len(p)); s.at+int64(len(s.held)) < end; {
		s.drop(at)
		line, err := s.split.Next()
		if errors.Is(err, io.EOF) {
			return damaged("bytes %d to %d of the skeleton of layer %s, which has %d", at, end, s.id,
				s.at+int64(len(s.held)))
		}
		if err != nil {
			return err
		}
		if line.Name == "" {
			s.held = append(s.held, line.Payload...)
		}
	}
	copy(p, s.held[at-s.at:])
	return nil
}

// drop forgets what is before an offset, once that is as much as what stays.
func (s *skeleton) drop(at int64) {
	n := min(at-s.at, int64(len(s.held)))
	if n >= int64(len(s.held))-n && n > 0 {
		s.held = s.held[:copy(s.held, s.held[n:])]
		s.at += n
	}
}

func (s *skeleton) close() {
	if s.split != nil {
		s.split.Close()
		s.split = nil
	}
}
