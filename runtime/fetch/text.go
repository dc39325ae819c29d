package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"
)

// textTime is how long a server has for a small file, and textAttempts how often it is asked.
const (
	textTime     = time.Minute
	textAttempts = 4
)

// textClient is client, but a redirect cannot lead from HTTPS to HTTP: what Text gets has no digest.
var textClient = &http.Client{Transport: client.Transport, CheckRedirect: stayWithHTTPS}

func stayWithHTTPS(r *http.Request, via []*http.Request) error {
	if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return fmt.Errorf("the server redirects to %s, which is not HTTPS", r.URL.Redacted())
	}
	if len(via) == 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// Text reads a small file of a server, of at most max bytes. The error is fs.ErrNotExist if the server says that it
// does not have it, and else ErrServer.
func Text(ctx context.Context, url string, max int64) (text []byte, err error) {
	err = ask(ctx, url, "", func(r *http.Response) (err error) {
		text, err = io.ReadAll(io.LimitReader(r.Body, max+1))
		if err == nil && int64(len(text)) > max {
			err = fmt.Errorf("more than %d bytes", max)
		}
		return err
	})
	return text, err
}

// Size asks a server for the size of a file in bytes. Errors are those of Text. It asks for the first byte: some URLs
// permit no HEAD, such as those that an object store has signed.
func Size(ctx context.Context, url string) (size int64, err error) {
	err = ask(ctx, url, "bytes=0-0", func(r *http.Response) error {
		size = r.ContentLength
		if r.StatusCode == http.StatusPartialContent {
			size = 0
			_, _ = fmt.Sscanf(r.Header.Get("Content-Range"), "bytes 0-0/%d", &size) // 0 if it is something else
		}
		if size <= 0 {
			return errors.New("the server does not say how many bytes it has")
		}
		return nil
	})
	return size, err
}

// ask makes a request until it is answered, a few times.
func ask(ctx context.Context, url, bytes string, take func(*http.Response) error) error {
	for failed := 1; ; failed++ {
		err := askOnce(ctx, url, bytes, take)
		switch {
		case err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist):
			return err
		case failed == textAttempts:
			return fmt.Errorf("%s: %w: %d attempts: %w", url, ErrServer, failed, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(textPause << failed):
		}
	}
}

// textPause is half of the pause before the second attempt. Tests make it shorter.
var textPause = 100 * time.Millisecond

func askOnce(ctx context.Context, url, bytes string, take func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(ctx, textTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if bytes != "" {
		r.Header.Set("Range", bytes)
	}
	r.Header.Set("User-Agent", "pinbox-node")
	answer, err := textClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return take(answer)
	case http.StatusNotFound, http.StatusGone, http.StatusForbidden: // object stores say so of what is not there
		return fmt.Errorf("%s: %w: the server answers %s", url, fs.ErrNotExist, answer.Status)
	}
	return fmt.Errorf("the server answers %s", answer.Status)
}
