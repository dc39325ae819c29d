package storage

import (
	"context"
	"errors"
	"io"

	"go.podman.io/image/v5/pkg/blobinfocache/none"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/tail"
)

// minResumed is from which size on a blob is kept while it is fetched, in bytes: a
// smaller one is sooner fetched again.
const minResumed = 1 << 20

// resumed reads a blob out of what was fetched of it earlier, and the rest from the
// registry, which it keeps beside.
type resumed struct {
	ctx  context.Context
	src  *source
	want imgtypes.BlobInfo
	part *cache.Partial
	have int64 // bytes in part
	at   int64 // bytes that were read

	body  io.ReadCloser
	begun int64 // where body began
}

func (s *source) resume(ctx context.Context, want imgtypes.BlobInfo, part *cache.Partial) (*resumed, error) {
	have, err := part.Size()
	if err != nil {
		return nil, err
	}
	if have > want.Size {
		have = 0 // it is not what it should be
	}
	return &resumed{ctx: ctx, src: s, want: want, part: part, have: have}, nil
}

func (r *resumed) Read(p []byte) (int, error) {
	if r.at < r.have {
		n, err := r.part.ReadAt(p[:min(int64(len(p)), r.have-r.at)], r.at)
		r.at += int64(n)
		return n, err
	}
	if r.body == nil {
		if r.at == r.want.Size {
			return 0, io.EOF
		}
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p)
	r.keep(p[:n])
	r.at += int64(n)
	if err != nil && !errors.Is(err, io.EOF) && r.ctx.Err() == nil && r.begun > 0 && r.at > r.begun {
		// The library asks again for what is missing of a whole blob, but not of a part.
		_ = r.body.Close()
		r.body, err = nil, nil
	}
	return n, err
}

// keep writes what was fetched beside. Where that cannot be done, the room is given
// back: what is kept is not needed, unless this run is killed.
func (r *resumed) keep(p []byte) {
	if r.part == nil {
		return
	}
	if _, err := r.part.WriteAt(p, r.at); err != nil {
		_ = r.part.Truncate(0) // nothing else needs it
		r.part = nil
		return
	}
	r.have = r.at + int64(len(p))
}

// open asks the registry for what is missing.
func (r *resumed) open() (err error) {
	r.begun = r.at
	if r.at > 0 {
		if r.body, err = tail.Open(r.ctx, r.src.ImageSource, r.want, r.at); err == nil || r.ctx.Err() != nil {
			return err
		}
	}
	r.begun = 0
	if r.body, _, err = r.src.ImageSource.GetBlob(r.ctx, r.want, none.NoCache); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, r.body, r.at) // which a registry that knows no ranges sends again
	return err
}

func (r *resumed) Close() error {
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}
