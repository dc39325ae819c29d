package squashfs

import (
	"fmt"
	"os"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// records is a list of byte strings at positions, 0 being none. It holds 2 MiB of them, and the others are in a file
// without a name.
type records struct {
	tmp    string // a folder for the file; "" holds all
	chunks [][]byte
	file   *os.File // closed when the list is collected
	last   []byte   // the chunk that was read last, and its number
	loaded int
	err    error // the first failure of the file
}

const (
	chunkSize  = 1 << 14
	heldChunks = 128
	maxChunks  = 1 << 32 / chunkSize
	maxRecord  = chunkSize / 2
)

// add appends a record, and returns its position; 0 if there is no room.
func (r *records) add(b []byte) uint32 {
	if len(r.chunks) == 0 {
		r.chunks = [][]byte{make([]byte, 1, 256)}
	}
	n := len(r.chunks) - 1
	if len(b) > maxRecord {
		return 0
	}
	if len(r.chunks[n])+len(b) > chunkSize {
		if n+1 == maxChunks {
			return 0
		}
		r.spill(n)
		n++
		r.chunks = append(r.chunks, make([]byte, 0, chunkSize))
	}
	at := n*chunkSize + len(r.chunks[n])
	r.chunks[n] = append(r.chunks[n], b...)
	return uint32(at)
}

// spill moves a full chunk to the file. It stays if that cannot be written. A file that cannot be made is an error,
// since it may still have a name, and lie in what is being written.
func (r *records) spill(n int) {
	if n < heldChunks || r.tmp == "" {
		return
	}
	if r.file == nil {
		var err error
		if r.file, err = atomicfile.Unnamed(r.tmp); err != nil {
			r.tmp = ""
			r.fail(err)
			return
		}
	}
	if _, err := r.file.WriteAt(r.chunks[n][:chunkSize], int64(n)*chunkSize); err == nil {
		r.chunks[n] = nil
	}
}

// at returns the record at a position, and what follows it. It is valid until the next call.
func (r *records) at(pos uint32) []byte {
	n, offset := int(pos/chunkSize), pos%chunkSize
	if chunk := r.chunks[n]; chunk != nil {
		return chunk[offset:]
	}
	if r.last == nil {
		r.last = make([]byte, chunkSize)
	}
	if r.loaded != n {
		if _, err := r.file.ReadAt(r.last, int64(n)*chunkSize); err != nil {
			r.fail(err)
			clear(r.last)
		}
		r.loaded = n
	}
	return r.last[offset:]
}

// clear overwrites the bytes from a position on with zeros.
func (r *records) clear(pos uint32, size int) {
	clear(r.at(pos)[:size])
	if r.chunks[pos/chunkSize] == nil {
		if _, err := r.file.WriteAt(make([]byte, size), int64(pos)); err != nil {
			r.fail(err)
		}
	}
}

func (r *records) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("temporary file of a tree: %w", err)
	}
}
