package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/fault"
)

// stall is how long a server may send less than Options.Least, at most.
const stall = time.Minute

// client makes the requests for a store and for what is next to it.
type client struct {
	patience *download.Patience
	// file passes on what comes; document is for small files. A redirect cannot lead it from HTTPS to HTTP, since what it
	// gets has no digest.
	file, document *http.Client
}

// newClient returns a client that asks the proxies of the environment, as curl does, and does not unpack what it gets.
// A server that is sure to exist is waited for although it has not answered yet.
func newClient(o Options, sure bool) client {
	dial := o.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	network := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSHandshakeTimeout: 30 * time.Second,
		DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
	}
	p := download.NewPatience(cmp.Or(o.Stall, 5*time.Minute), o.Note)
	p.Stall, p.Least, p.Sure = min(p.Stall, stall), o.Least, sure
	return client{
		patience: p,
		file:     &http.Client{Transport: &download.Transport{Next: network, Patience: p, Most: o.most, Files: true}},
		document: &http.Client{
			Transport: &download.Transport{Next: network, Patience: p, Most: o.most}, CheckRedirect: stayWithHTTPS,
		},
	}
}

func stayWithHTTPS(r *http.Request, via []*http.Request) error {
	if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return fmt.Errorf("the server redirects to %s, which is not HTTPS", r.URL.Redacted())
	}
	if len(via) == 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// get makes a request. The error is fs.ErrNotExist if the server says that it does not have the file.
func get(ctx context.Context, by *http.Client, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "pinbox-node")
	answer, err := by.Do(r)
	if err != nil || answer.StatusCode == http.StatusOK {
		return answer, err
	}
	_ = answer.Body.Close() // nothing was written to it
	err = fmt.Errorf("the server answers %s", answer.Status)
	switch answer.StatusCode {
	case http.StatusNotFound, http.StatusGone, http.StatusForbidden: // object stores say so of what is not there
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return nil, err
}

// text reads a small file of a server, of at most limit bytes. The error is fs.ErrNotExist if the server says that it
// does not have it, and else ErrServer.
func (c client) text(ctx context.Context, url string, limit int64) (text []byte, err error) {
	answer, err := get(ctx, c.document, url)
	if err == nil {
		defer answer.Body.Close()
		text, err = io.ReadAll(io.LimitReader(answer.Body, limit+1))
	}
	if int64(len(text)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return text, notGiven(ctx, url, err)
}

// size asks a server for the size of a file in bytes. Errors are those of text. It asks for the first byte: some URLs
// permit no HEAD, such as those that an object store has signed.
func (c client) size(ctx context.Context, url string) (size int64, err error) {
	ranged, said := download.WithAnswer(download.WithRange(ctx, 0, 1))
	answer, err := get(ranged, c.file, url)
	if err != nil {
		return 0, notGiven(ctx, url, err)
	}
	defer answer.Body.Close()
	if size = answer.ContentLength; said.Ranged {
		size = 0
		_, _ = fmt.Sscanf(answer.Header.Get("Content-Range"), "bytes 0-0/%d", &size) // 0 if it is something else
	}
	if size <= 0 {
		err = notGiven(ctx, url, errors.New("the server does not say how many bytes it has"))
	}
	return size, err
}

func notGiven(ctx context.Context, url string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		err = fault.Wrap(ErrServer, err)
	}
	return fmt.Errorf("%s: %w", url, err)
}
