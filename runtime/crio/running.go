package crio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// maxRunning limits the configuration that CRI-O sends, in bytes. That of CRI-O 1.34 has 20 KB, and a pin takes
// 100 bytes.
const maxRunning = 16 << 20

// retry is the time between two questions, while CRI-O starts.
const retry = 100 * time.Millisecond

// Running returns the storage options of the CRI-O that listens on a socket: what its files and the options of
// its command line come to. It waits until CRI-O answers. Source: GET /config in CRI-O's server/inspect.go.
func Running(ctx context.Context, socket string) (Config, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
		},
	}}
	for {
		answer, err := get(ctx, client)
		if err == nil {
			var s section
			if err := toml.Unmarshal(answer, &s); err != nil {
				return Config{}, err
			}
			return Config{StorageOptions: s.Crio.StorageOption}, nil
		}
		select {
		case <-ctx.Done():
			return Config{}, fmt.Errorf("%s: %w", socket, errors.Join(err, ctx.Err()))
		case <-time.After(retry):
		}
	}
}

func get(ctx context.Context, client http.Client) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://crio/config", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxRunning))
}
