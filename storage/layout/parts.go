package layout

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
)

// MaxParts is the largest number of parts of a store: of the three digits in their names. With parts just below 4
// GiB, the largest file of FAT, that is 3.9 TiB.
const MaxParts = 999

var partSuffix = regexp.MustCompile(`\.[0-9]{3}$`)

// PartName returns the name of a part of a store that was split, counted from 1: "store.squashfs.001". SHA256SUMS
// lists the store as if it were there in one file, and no parts.
func PartName(store string, n int) string { return fmt.Sprintf("%s.%03d", store, n) }

// CutPart returns the name of the store that a part is of, and whether the name is one of a part.
func CutPart(name string) (store string, is bool) {
	store = partSuffix.ReplaceAllString(name, "")
	return store, store != name
}

// Part is a file with some of the bytes of a store.
type Part struct {
	io.ReadCloser
	Size int64 // in bytes
}

// joined are the parts of a store, which are all open.
type joined struct {
	io.Reader
	parts []Part
}

func (j joined) Close() (err error) {
	for _, part := range j.parts {
		err = errors.Join(err, part.Close())
	}
	return err
}

// ReadAt implements io.ReaderAt, if the parts are files.
func (j joined) ReadAt(p []byte, at int64) (n int, err error) {
	for _, part := range j.parts {
		if at < part.Size && n < len(p) {
			file, ok := part.ReadCloser.(io.ReaderAt)
			if !ok {
				return n, errors.ErrUnsupported
			}
			want := int(min(int64(len(p)-n), part.Size-at))
			got, err := file.ReadAt(p[n:n+want], at)
			if n, at = n+got, at+int64(got); got < want {
				return n, err
			}
		}
		at -= part.Size
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Join returns the parts of a store as one, in the order of their numbers up to the first that does not exist. Only the
// digest or the signature of the store shows whether these are all, and the right ones.
func Join(store string, open func(name string) (Part, error)) (Part, error) {
	var all joined
	var readers []io.Reader
	size := int64(0)
	for n := 1; n <= MaxParts; n++ {
		part, err := open(PartName(store, n))
		if n > 1 && errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil {
			all.parts, readers = append(all.parts, part), append(readers, part)
			if part.Size > math.MaxInt64-size {
				err = fmt.Errorf("%s has %d bytes", PartName(store, n), part.Size)
			}
		}
		if err != nil {
			return Part{}, errors.Join(err, all.Close())
		}
		size += part.Size
	}
	all.Reader = io.MultiReader(readers...)
	return Part{all, size}, nil
}
