package neighbour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

const (
	// askTime is how long a neighbour has to say what it has.
	askTime = 2 * time.Second
	// askedAtOnce is how many are asked at the same time, and mostAsked how many are asked at all.
	askedAtOnce = 32
	mostAsked   = 256
)

// asker makes requests to neighbours, about one file.
type asker struct {
	client *http.Client
	id     digest.Digest
	size   int64
	// given is how long a neighbour has for the first byte, and for each that follows.
	given time.Duration
}

func newAsker(id digest.Digest, size int64, given time.Duration, dial dialer) *asker {
	if dial == nil {
		dial = (&net.Dialer{Timeout: askTime}).DialContext
	}
	return &asker{id: id, size: size, given: given, client: &http.Client{
		// No proxy: neighbours are on the network of the node.
		Transport: &http.Transport{
			DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
			MaxIdleConnsPerHost: 1, MaxIdleConns: 64, IdleConnTimeout: 15 * time.Second,
		},
		// A neighbour cannot send the node elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (a *asker) url(address string) string { return "http://" + address + filesPath + a.id.String() }

// views asks all neighbours what they have. Those that have nothing or do not answer are left out.
func (a *asker) views(ctx context.Context, addresses []string) []view {
	var (
		mu   sync.Mutex
		all  []view
		work sync.WaitGroup
		free = make(chan struct{}, askedAtOnce)
	)
	for _, address := range addresses {
		work.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if v, err := a.view(ctx, address); err == nil {
				mu.Lock()
				all = append(all, v)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return all
}

func (a *asker) view(ctx context.Context, address string) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, a.url(address), nil)
	if err != nil {
		return v, err
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return v, err
	}
	_ = answer.Body.Close() // it has none
	v = view{address: address, rank: rankOf(address, a.id), source: Source(answer.Header.Get(sourceHeader))}
	switch answer.Header.Get(stateHeader) {
	case stateComplete:
		v.complete, v.source = true, NoSource
	case stateFetching:
	default:
		return v, errNone
	}
	if answer.StatusCode != http.StatusOK || answer.ContentLength != a.size {
		return v, errNone
	}
	v.uploads, err = strconv.Atoi(answer.Header.Get(uploadsHeader))
	if err == nil {
		v.bytes, err = strconv.ParseInt(answer.Header.Get(bytesHeader), 10, 64)
	}
	if v.complete {
		v.bytes = a.size
	}
	if err != nil || v.bytes < 0 || v.bytes > a.size || v.uploads < 0 {
		return v, errNone
	}
	return v, nil
}

// Why a neighbour gives nothing.
var (
	errBusy = errors.New("the neighbour is busy")
	errLies = errors.New("the neighbour answers with something else")
	errEnds = errors.New("the neighbour ends after a few bytes")
	errSlow = errors.New("the neighbour sends nothing, or too slowly")
)

// get asks a neighbour for the bytes from from to to, which is behind the last. It does so only if the neighbour has at
// most so many uploads, unless that is negative.
func (a *asker) get(ctx context.Context, address string, from, to int64, uploads int) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(a.given, func() { cancel(errSlow) })
	fail := func(err error) (io.ReadCloser, error) {
		timer.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url(address), nil)
	if err != nil {
		return fail(err)
	}
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
	if uploads >= 0 {
		r.Header.Set(uploadsHeader, strconv.Itoa(uploads))
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return fail(err)
	}
	want := fmt.Sprintf("bytes %d-%d/%d", from, to-1, a.size)
	switch {
	case answer.StatusCode == http.StatusServiceUnavailable, answer.StatusCode == http.StatusNotFound:
		_ = answer.Body.Close()
		return fail(errBusy)
	case answer.StatusCode != http.StatusPartialContent, answer.Header.Get("Content-Range") != want:
		_ = answer.Body.Close()
		return fail(errLies)
	}
	return &body{
		from: answer.Body, left: to - from, given: a.given, timer: timer, ctx: ctx,
		end: func() { timer.Stop(); cancel(nil) },
	}, nil
}

// body reads what a neighbour sends: no more than was asked for, and each byte in time.
type body struct {
	from  io.ReadCloser
	left  int64
	given time.Duration
	timer *time.Timer
	ctx   context.Context
	end   func()
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if n > 0 {
		b.timer.Reset(b.given)
	}
	if err != nil && errors.Is(context.Cause(b.ctx), errSlow) {
		err = errSlow
	}
	return n, err
}

func (b *body) Close() error {
	b.end()
	return b.from.Close()
}
