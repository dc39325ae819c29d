package squashfs

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/zstd"
)

// DecodeIndex reads an index without its sums, which keep others away from it.
func DecodeIndex(index []byte) { _, _ = decodeIndex(bytes.NewReader(index)) }

// IndexOf gives the index of a pack without its sums.
func IndexOf(pack []byte) ([]byte, error) {
	foot := pack[len(pack)-packFoot:]
	start := binary.LittleEndian.Uint64(foot)
	unzip, err := zstd.NewReader(bytes.NewReader(pack[start : start+binary.LittleEndian.Uint64(foot[8:])]))
	if err != nil {
		return nil, err
	}
	defer unzip.Close()
	return io.ReadAll(unzip)
}
