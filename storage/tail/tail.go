package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	imgtypes "go.podman.io/image/v5/types"
)

// ErrNoRange reports that containers/image cannot read ranges of a source.
var ErrNoRange = errors.New("containers/image cannot read ranges of this source")

// Open reads a blob from an offset, in bytes, to a larger one. The error is ErrNoRange if that is not
// possible. The end of ctx ends the read.
func Open(
	ctx context.Context, src imgtypes.ImageSource, want imgtypes.BlobInfo, from, to int64,
) (io.ReadCloser, error) {
	body, err := open(ctx, src, want, from, to)
	if err != nil {
		return nil, err
	}
	return &stream{body: body}, nil
}

// Ranged requests one byte of a blob. The error is ErrNoRange if the registry answers with the whole
// blob, of which Open would read all that is before the range.
func Ranged(ctx context.Context, src imgtypes.ImageSource, want imgtypes.BlobInfo) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := open(ctx, src, want, 0, 1)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	// For a range, it is the body of the response; else a type of the library, handle206Response and
	// splitHTTP200ResponseToPartial in docker/docker_image_src.go.
	if reflect.Indirect(reflect.ValueOf(body)).Type().PkgPath() != "net/http" {
		err = ErrNoRange
	}
	return errors.Join(err, body.Close())
}

func open(
	ctx context.Context, src imgtypes.ImageSource, want imgtypes.BlobInfo, from, to int64,
) (io.ReadCloser, error) {
	get := reflect.ValueOf(src).MethodByName("GetBlobAt")
	if !get.IsValid() || !known(get.Type()) {
		return nil, ErrNoRange
	}
	chunks := reflect.MakeSlice(get.Type().In(2), 1, 1)
	chunks.Index(0).FieldByName("Offset").SetUint(uint64(from))
	chunks.Index(0).FieldByName("Length").SetUint(uint64(to - from))
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
	return body, nil
}

// known reports whether a method is
//
//	GetBlobAt(context.Context, types.BlobInfo, []private.ImageSourceChunk)
//		(chan io.ReadCloser, chan error, error)
//
// of private.BlobChunkAccessor, and its chunks have an offset and a length only.
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

// first returns the requested stream, or the error that the library sends instead. The library sends
// to one of two unbuffered channels, and blocks until that one is read: first reads both.
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

// drain receives all else that the library sends, so that its goroutine ends. With most responses the
// library closes the channels only when the caller closes the stream.
func drain(streams chan io.ReadCloser, errs chan error) {
	for streams != nil || errs != nil {
		select {
		case body, ok := <-streams:
			if !ok {
				streams = nil
			} else {
				_ = body.Close() // not requested
			}
		case _, ok := <-errs:
			if !ok {
				errs = nil
			}
		}
	}
}
