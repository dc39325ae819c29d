//go:build native && cgo

package codec

/*
#cgo LDFLAGS: -lzstd
#cgo noescape ZSTD_compress2
#cgo nocallback ZSTD_compress2
#include <zstd.h>
*/
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// zstdContexts has the contexts that no call uses, of about 1 MB each. There are as many as calls of
// Compress ever ran at the same time. They are never freed.
var zstdContexts struct {
	sync.Mutex
	free []*C.ZSTD_CCtx
}

func takeContext() *C.ZSTD_CCtx {
	zstdContexts.Lock()
	defer zstdContexts.Unlock()
	if n := len(zstdContexts.free); n > 0 {
		c := zstdContexts.free[n-1]
		zstdContexts.free = zstdContexts.free[:n-1]
		return c
	}
	c := C.ZSTD_createCCtx()
	if c == nil {
		panic("no memory for a compressor") // as Go does
	}
	return c
}

func putContext(c *C.ZSTD_CCtx) {
	zstdContexts.Lock()
	defer zstdContexts.Unlock()
	zstdContexts.free = append(zstdContexts.free, c)
}

type zstdBlock struct{ level C.int }

// NewZstdBlock compresses with a level of libzstd, into frames without a checksum whose window is not
// larger than the block: the kernel's decoder for squashfs has a window of one block.
func NewZstdBlock(level int) (Block, error) { return zstdBlock{C.int(level)}, nil }

func (b zstdBlock) Compress(dst, raw []byte) ([]byte, bool) {
	// The output of libzstd may depend on the capacity of dst.
	room := C.ZSTD_compressBound(C.size_t(len(raw)))
	dst = slices.Grow(dst[:0], int(room))
	c := takeContext()
	defer putContext(c)
	// By default libzstd writes the size of the content, and no checksum.
	C.ZSTD_CCtx_setParameter(c, C.ZSTD_c_compressionLevel, b.level)
	n := C.ZSTD_compress2(c, unsafe.Pointer(unsafe.SliceData(dst)), room,
		unsafe.Pointer(unsafe.SliceData(raw)), C.size_t(len(raw)))
	if C.ZSTD_isError(n) != 0 { // cannot happen: the output fits
		panic("compress a block: " + C.GoString(C.ZSTD_getErrorName(n)))
	}
	return dst[:n], int(n) < len(raw)
}

// ZstdBlockID names the encoder of a level.
func ZstdBlockID(level int) string { return fmt.Sprintf("%s-%d", ZstdID(), level) }

// ZstdID names the zstd encoder, on which the bytes of a block depend: "zstd-native-1.5.4" is libzstd
// 1.5.4.
func ZstdID() string { return "zstd-native-" + C.GoString(C.ZSTD_versionString()) }
