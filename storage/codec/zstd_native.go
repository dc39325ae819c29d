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

// parameter is one of libzstd's.
type parameter struct {
	name  C.ZSTD_cParameter
	value C.int
}

// The default level finds matches of 5 bytes with one table, of 256 KiB. libzstd has two at level 3: blocks of 128 KiB
// are 0.8 % smaller with these, those of 32 KiB and less 0.3 %, and take 1.3 times as long. See docs/build.md.
var defaultParameters = []parameter{
	{C.ZSTD_c_compressionLevel, defaultLevel}, {C.ZSTD_c_strategy, C.ZSTD_fast}, {C.ZSTD_c_hashLog, 16},
	{C.ZSTD_c_minMatch, 5},
}

type zstdBlock struct{ parameters []parameter }

// NewZstdBlock compresses with a level of libzstd, into frames without a checksum whose window is not
// larger than the block: the kernel's decoder for squashfs has a window of one block.
func NewZstdBlock(level int) (Block, error) {
	if level == defaultLevel {
		return zstdBlock{defaultParameters}, nil
	}
	return zstdBlock{[]parameter{{C.ZSTD_c_compressionLevel, C.int(level)}}}, nil
}

func (b zstdBlock) Compress(dst, raw []byte) ([]byte, bool) {
	// The output of libzstd may depend on the capacity of dst.
	room := C.ZSTD_compressBound(C.size_t(len(raw)))
	dst = slices.Grow(dst[:0], int(room))
	c := takeContext()
	defer putContext(c)
	// By default libzstd writes the size of the content, and no checksum.
	C.ZSTD_CCtx_reset(c, C.ZSTD_reset_parameters)
	for _, p := range b.parameters {
		C.ZSTD_CCtx_setParameter(c, p.name, p.value)
	}
	n := C.ZSTD_compress2(c, unsafe.Pointer(unsafe.SliceData(dst)), room,
		unsafe.Pointer(unsafe.SliceData(raw)), C.size_t(len(raw)))
	if C.ZSTD_isError(n) != 0 { // cannot happen: the output fits
		panic("compress a block: " + C.GoString(C.ZSTD_getErrorName(n)))
	}
	return dst[:n], int(n) < len(raw)
}

// ZstdBlockID names the encoder of a level.
func ZstdBlockID(level int) string { return fmt.Sprintf("%s-%d", ZstdID(), level) }

// ZstdID names the zstd encoder, on which the bytes of a block depend: "zstd-native2-1.5.4" is libzstd
// 1.5.4 with version 2 of the parameters above.
func ZstdID() string { return "zstd-native2-" + C.GoString(C.ZSTD_versionString()) }
