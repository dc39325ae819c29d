//go:build native && cgo

package codec

/*
#cgo LDFLAGS: -lisal
#cgo noescape pinbox_crc64
#cgo nocallback pinbox_crc64
#include <isa-l/crc64.h>
#include "clean.h"

static uint64_t pinbox_crc64(uint64_t sum, const void *p, uint64_t n)
{
	sum = crc64_iso_refl(sum, p, n);
	clean();
	return sum;
}
*/
import "C"

import "unsafe"

// longISO is the size from which ISA-L takes less time than Go code, with the call, in bytes.
const longISO = 512

func foldLong(sum uint64, p []byte) (uint64, []byte) {
	if len(p) < longISO {
		return foldISO(sum, p)
	}
	return ^uint64(C.pinbox_crc64(C.uint64_t(^sum), unsafe.Pointer(unsafe.SliceData(p)), C.uint64_t(len(p)))), nil
}
