//go:build native && cgo

package codec

/*
#cgo LDFLAGS: -lisal
#cgo noescape pinbox_inflate
#cgo nocallback pinbox_inflate
#include <stdlib.h>
#include <isa-l/igzip_lib.h>
#include "clean.h"

typedef struct {
	struct inflate_state state;
	uint32_t in_used, out_used;
	int code, done;
} pinbox_inflater;

static void pinbox_inflate_reset(pinbox_inflater *f)
{
	isal_inflate_reset(&f->state);
}

static pinbox_inflater *pinbox_inflate_new(void)
{
	pinbox_inflater *f = calloc(1, sizeof *f);
	if (f) {
		isal_inflate_init(&f->state);
		// Go code reads the header; ISA-L reads and verifies the trailer.
		f->state.crc_flag = ISAL_GZIP_NO_HDR_VER;
	}
	return f;
}

// in and out are only used during the call.
static void pinbox_inflate(pinbox_inflater *f, void *in, uint32_t in_len, void *out, uint32_t out_len)
{
	struct inflate_state *s = &f->state;
	s->next_in = in, s->avail_in = in_len;
	s->next_out = out, s->avail_out = out_len;
	f->code = isal_inflate(s);
	clean();
	f->done = s->block_state == ISAL_BLOCK_FINISH;
	f->in_used = in_len - s->avail_in;
	f->out_used = out_len - s->avail_out;
	s->next_in = s->next_out = NULL;
	s->avail_in = s->avail_out = 0;
}
*/
import "C"

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"unsafe"
)

var (
	errNoMemory = errors.New("no memory for a decompressor")
	errCorrupt  = errors.New("corrupt deflate stream")
)

var inflateErrors = map[C.int]string{
	C.ISAL_INVALID_BLOCK:    "invalid block",
	C.ISAL_INVALID_SYMBOL:   "invalid symbol",
	C.ISAL_INVALID_LOOKBACK: "reference to before the start",
}

// isalInflater holds C memory, which Close frees.
type isalInflater struct {
	in   *bufio.Reader
	c    *C.pinbox_inflater
	more bool // the last call filled its output: ISA-L may have more without input
}

func newInflater(in *bufio.Reader) (inflater, error) {
	c := C.pinbox_inflate_new()
	if c == nil {
		return nil, errNoMemory
	}
	return &isalInflater{in: in, c: c}, nil
}

func (f *isalInflater) reset() {
	C.pinbox_inflate_reset(f.c)
	f.more = false
}

func (f *isalInflater) Read(p []byte) (int, error) {
	p = p[:min(len(p), 1<<30)]
	for {
		in, err := f.peek()
		if err != nil {
			return 0, noEOF(err)
		}
		C.pinbox_inflate(f.c, unsafe.Pointer(unsafe.SliceData(in)), C.uint32_t(len(in)),
			unsafe.Pointer(unsafe.SliceData(p)), C.uint32_t(len(p)))
		n := int(f.c.out_used)
		if _, err := f.in.Discard(int(f.c.in_used)); err != nil {
			return 0, err // cannot happen: the bytes are buffered
		}
		f.more = n == len(p)
		switch {
		case f.c.code == C.ISAL_INCORRECT_CHECKSUM:
			return n, ErrChecksum
		case f.c.code < 0:
			return n, fmt.Errorf("%w: %s", errCorrupt, inflateErrors[f.c.code])
		case f.c.done != 0:
			return n, io.EOF
		case n > 0:
			return n, nil
		}
	}
}

// peek returns the buffered input. It reads more only if there is none and ISA-L needs it.
func (f *isalInflater) peek() ([]byte, error) {
	if f.in.Buffered() == 0 && !f.more {
		if _, err := f.in.Peek(1); err != nil {
			return nil, err
		}
	}
	return f.in.Peek(f.in.Buffered())
}

func (f *isalInflater) Close() error {
	C.free(unsafe.Pointer(f.c))
	f.c = nil
	return nil
}
