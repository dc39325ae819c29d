package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Why a store is not fetched.
var (
	ErrName = fault.New(fault.Usage, "not the name of a store on a server",
		"write it as https://HOST/PATH/delta.thin or https://HOST/FOLDER/")
	ErrPlain = fault.New(fault.Usage, "HTTP without TLS says nothing about who has answered",
		"use HTTPS, or give the --digest of the store")
	ErrServer = fault.New(fault.Other, "the server does not give the store",
		"look at the server and at the network; /etc/pinbox/node.env sets a proxy; the next run continues")
	ErrChanged = fault.New(fault.Damaged, "what the server gives is not what was asked for",
		"compare what is on the server with the original, and copy it again")
	ErrSpace = fault.New(fault.Space, "too little space for the store",
		"use a larger disk for /var; a live system without one has it in memory")
	ErrBusy = fault.New(fault.Busy, "another process fetches the store",
		"wait for it")
)

// Options say which stores are fetched, and how.
type Options struct {
	// Keys of the node: with any, a store needs a signature by one of them.
	Keys signature.Keys
	// Digest of the store; "" takes it from the sums.
	Digest digest.Digest
	// Stall is how long to go on while nothing of the store arrives; 0 means five minutes.
	Stall time.Duration
	// Least is how many bytes a second a server must send over a minute; with 0, any byte will do.
	Least int64
	// Done is called with the bytes on the disk, of all, and Note with why a request is made again; nil is fine.
	Done func(done, all int64)
	Note func(line string)

	most int // how often one request is made; 0 for no limit

	dial func(ctx context.Context, network, address string) (net.Conn, error) // of tests; nil for the network
}

// Store is one on a server.
type Store struct {
	// Origin is its URL, Name that of its file. Mirrors are other URLs of the same file, which are asked in turn.
	Origin, Name string
	Mirrors      []string
	Digest       digest.Digest // SHA-256
	Size         int64         // bytes
	signature    []byte
}

// Fetch fetches the store and its signature, unless the file has it: then it was complete and had the digest that is
// noted beside it, so that it need not be read at each boot.
func (s Store) Fetch(ctx context.Context, file string, o Options) (found bool, err error) {
	fi, err := os.Lstat(file)
	complete := err == nil && fi.Mode().IsRegular() && fi.Size() == s.Size
	note := file + ".digest"
	noted, _ := os.ReadFile(note) // without one, the file is read
	switch {
	case complete && string(noted) == s.Digest.String()+"\n":
		return true, nil
	case complete: // the node may have stopped before that
		if err := os.Rename(file, file+".part"); err != nil {
			return false, err
		}
	}
	if s.signature != nil {
		if _, err := atomicfile.Write(file+layout.SignatureSuffix, s.signature, 0o600); err != nil {
			return false, err
		}
	}
	part, err := os.OpenFile(file+".part", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, err
	}
	defer part.Close()
	if err := filelock.Try(part); err != nil {
		return false, fmt.Errorf("%s: %w: %w", file, ErrBusy, err)
	}
	if s.Mirrors != nil {
		o.most = download.Attempts
	}
	f := &fetching{
		store: s, o: o, client: newClient(o, true), part: part, origins: append([]string{s.Origin}, s.Mirrors...),
	}
	if err := f.run(ctx); err != nil {
		return false, fmt.Errorf("%s: %w", s.Origin, err)
	}
	if err := os.RemoveAll(note); err != nil {
		return false, err
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return false, err
	}
	if err := atomicfile.SyncDir(filepath.Dir(file)); err != nil {
		return false, err
	}
	_, err = atomicfile.Write(note, []byte(s.Digest.String()+"\n"), 0o644)
	return false, err
}

// fetching is a store that is being fetched into a file that an earlier run may have begun.
type fetching struct {
	store  Store
	o      Options
	client client
	part   *os.File
	// origins are the URLs of the store: the first is asked, and goes to the end when it fails.
	origins []string
	have    int64 // bytes at the beginning of part
	at      int64 // where in part the next bytes of an answer belong
	gained  int64 // bytes since the patience with the server was renewed
	failed  int   // requests since then
	// plain is for a server that does not do ranges, or answers with other ones.
	plain bool
}

// run fetches until part has all bytes and the digest. Content that has another one is fetched once more: an
// interrupted fetch may have begun with that of an earlier release. A mirror may have given it, so each has its turn.
func (f *fetching) run(ctx context.Context) error {
	fi, err := f.part.Stat()
	if err != nil {
		return err
	}
	if f.have = fi.Size(); f.have > f.store.Size {
		f.have = 0
	}
	again := len(f.store.Mirrors)
	if f.have > 0 {
		again++
	}
	for {
		if err := f.checkSpace(); err != nil {
			return err
		}
		if err := f.receive(ctx); err != nil {
			return err
		}
		if err := errors.Join(f.part.Truncate(f.store.Size), atomicfile.Flush(ctx, f.part), f.part.Sync()); err != nil {
			return err
		}
		want := transfer.Content{Size: f.store.Size, Digest: f.store.Digest}
		_, err := transfer.Copy(ctx, io.Discard, io.NewSectionReader(f.part, 0, want.Size), want, nil)
		if !errors.Is(err, transfer.ErrDigest) {
			return err
		}
		if err := errors.Join(f.part.Truncate(0), f.part.Sync()); err != nil {
			return err
		}
		if again == 0 {
			return fmt.Errorf("%w: %w", ErrChanged, err)
		}
		again--
		f.have = 0
		f.turn()
	}
}

func (f *fetching) checkSpace() error {
	dir := filepath.Dir(f.part.Name())
	space, err := disk.Measure(dir)
	if need := f.store.Size - f.have; err == nil && space.Free < need {
		err = fmt.Errorf("%w: it needs %s in %s, and %s are free", ErrSpace, bytesize.Format(need), dir,
			bytesize.Format(space.Free))
	}
	return err
}

// receive makes requests until part has all bytes, as long as there is patience with the server.
func (f *fetching) receive(ctx context.Context) error {
	for f.have < f.store.Size {
		start := time.Now()
		server, err := url.Parse(f.origins[0])
		if err != nil {
			return err
		}
		err = f.request(ctx)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errDisk):
			return err
		case errors.Is(err, download.ErrEnded):
			return fault.Wrap(ErrServer, err)
		}
		failure := download.Failed(err)
		if failure == nil { // the server may have the store, or the right one, later
			failure = &download.Failure{Err: err}
		}
		f.failed++
		failure.Since = start
		if f.turn(); f.failed%len(f.origins) != 0 { // each is asked before any is waited for
			if f.o.Note != nil {
				f.o.Note(fmt.Sprintf("%s: %v; asking the next server", server.Host, err)) // a URL may have a token
			}
			continue
		}
		if err := f.client.patience.Host(server.Host).Wait(ctx, failure, f.failed, 0); err != nil {
			return fault.Wrap(ErrServer, err)
		}
	}
	return nil
}

// turn turns to the next URL of the store.
func (f *fetching) turn() {
	if len(f.origins) > 1 {
		f.origins, f.plain = append(f.origins[1:], f.origins[0]), false
	}
}

// request makes one request for the bytes that are missing, and adds what it gets to part. What is behind the store is
// not read.
func (f *fetching) request(ctx context.Context) error {
	size := f.store.Size
	ctx, said := download.WithAnswer(ctx)
	if f.at = f.have; f.plain {
		f.at = 0
	}
	if f.at > 0 {
		ctx = download.WithRange(ctx, f.at, size)
	}
	answer, err := get(ctx, f.client.file, f.origins[0])
	if err == nil {
		defer answer.Body.Close()
		given := answer.Header.Get("Content-Range")
		switch {
		case said.Ranged && given != fmt.Sprintf("bytes %d-%d/%d", f.at, size-1, size):
			err = fmt.Errorf("the server answers a request for the bytes from %d of %d with %q", f.at, size, given)
		case !said.Ranged && answer.ContentLength >= 0 && answer.ContentLength != size:
			err = fmt.Errorf("the file has %d bytes, not the %d of the store", answer.ContentLength, size)
		}
	}
	if err != nil {
		f.plain = f.plain || said.Status == http.StatusPartialContent ||
			said.Status == http.StatusRequestedRangeNotSatisfiable
		return err
	}
	if !said.Ranged {
		f.at = 0
	}
	if _, err = io.CopyN(f, answer.Body, size-f.at); err != nil {
		err = fmt.Errorf("after %d of %d bytes: %w", f.at, size, err)
	}
	return err
}

// errDisk is for an error of the node's disk, which another request does not cure.
var errDisk = errors.New("write")

// Write adds bytes of an answer to part.
func (f *fetching) Write(p []byte) (n int, err error) {
	if n, err = f.part.WriteAt(p, f.at); err != nil {
		return n, fmt.Errorf("%w: %w", errDisk, err)
	}
	if f.at += int64(n); f.at > f.have {
		f.gained, f.have = f.gained+f.at-f.have, f.at
	}
	if f.gained >= f.client.patience.Enough() {
		f.gained, f.failed = 0, 0
		f.client.patience.Moved()
	}
	if f.o.Done != nil {
		f.o.Done(f.have, f.store.Size)
	}
	return n, nil
}
