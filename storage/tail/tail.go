package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	imgtypes "go.podman.io/image/v5/types"
)

// ErrNoRange says that the library reads no ranges of a source.
var ErrNoRange = errors.New("the library reads no ranges of this source")

// Open starts to read a blob from a byte on, which is below its size. Canceling the
// context ends the reading.
func Open(ctx context.Context, src imgtypes.ImageSource, want imgtypes.BlobInfo, from int64) (io.ReadCloser, error) {
	get := reflect.ValueOf(src).MethodByName("GetBlobAt")
	if !get.IsValid() || !known(get.Type()) {
		return nil, ErrNoRange
	}
	chunks := reflect.MakeSlice(get.Type().In(2), 1, 1)
	chunks.Index(0).FieldByName("Offset").SetUint(uint64(from))
	chunks.Index(0).FieldByName("Length").SetUint(uint64(want.Size - from))
	got := get.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(want), chunks})
	if err, failed := got[2].Interface().(error); failed {
		return nil, err
	}
	streams, errs := got[0].Interface().(chan io.ReadCloser), got[1].Interface().(chan error)
	body, err := first(ctx, streams, errs)
	go drain(streams, errs)
	if err != nil {
		return nil, fmt.Errorf("range from %d: %w", from, err)
	}
	return &stream{body: body}, nil
}

// known says whether a method is
//
//	GetBlobAt(context.Context, types.BlobInfo, []private.ImageSourceChunk)
//		(chan io.ReadCloser, chan error, error)
//
// of private.BlobChunkAccessor, with chunks of an offset and a length alone.
func known(method reflect.Type) bool {
	if method.NumIn() != 3 || method.NumOut() != 3 || method.In(2).Kind() != reflect.Slice {
		return false
	}
	chunk := method.In(2).Elem()
	if chunk.Kind() != reflect.Struct || chunk.NumField() != 2 {
		return false
	}
	for _, name := range []string{"Offset", "Length"} {
		if field, ok := chunk.FieldByName(name); !ok || field.Type.Kind() != reflect.Uint64 {
			return false
		}
	}
	return method.In(0) == reflect.TypeFor[context.Context]() && method.In(1) == reflect.TypeFor[imgtypes.BlobInfo]() &&
		method.Out(0) == reflect.TypeFor[chan io.ReadCloser]() && method.Out(1) == reflect.TypeFor[chan error]() &&
		method.Out(2) == reflect.TypeFor[error]()
}

// first gives the only stream that was asked for, or the error that is sent instead. The
// library sends to one of two unbuffered channels. Read both: it blocks for ever if only the
// other one is read.
func first(ctx context.Context, streams chan io.ReadCloser, errs chan error) (io.ReadCloser, error) {
	select {
	case body, ok := <-streams:
		if ok {
			return body, nil
		}
	case err, ok := <-errs:
		if ok {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, io.ErrUnexpectedEOF // the library closed a channel without sending anything
}

// drain takes what else is sent, so that the library's goroutine ends. Both live until the
// caller closes the stream: with most answers the library closes the channels only then.
func drain(streams chan io.ReadCloser, errs chan error) {
	for streams != nil || errs != nil {
		select {
		case body, ok := <-streams:
			if !ok {
				streams = nil
			} else {
				_ = body.Close() // nobody wants it
			}
		case _, ok := <-errs:
			if !ok {
				errs = nil
			}
		}
	}
}
