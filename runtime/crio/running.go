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

	"github.com/pinbox/pinbox/storage/fault"
)

// maxRunning limits the configuration that CRI-O sends, in bytes. That of CRI-O 1.34 has 20 KB, and a pin takes
// 100 bytes.
const maxRunning = 16 << 20

// retry is the time between two questions, while CRI-O starts.
const retry = 100 * time.Millisecond

// ErrWithoutStores means that CRI-O runs, and does not have the stores.
var ErrWithoutStores = fault.New(fault.Other, "CRI-O runs without the stores",
	"`systemctl status crio` and `crio status config` show what it reads")

// Running returns the storage options and the signature policy of the CRI-O that listens on a socket: what its files
// and the options of its command line come to. Source: GET /config in CRI-O's server/inspect.go.
func Running(ctx context.Context, socket string) (Config, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
		},
	}}
	answer, err := get(ctx, client)
	if err != nil {
		return Config{}, err
	}
	var s section
	if err := toml.Unmarshal(answer, &s); err != nil {
		return Config{}, err
	}
	c := Config{StorageOptions: s.Crio.StorageOption}
	replace(&c.SignaturePolicy, s.Crio.Image.Policy)
	return c, nil
}

// WaitForSlots asks CRI-O itself whether it has all slots, once it answers: options of its command line may come before
// its files. The error is ErrWithoutStores.
func WaitForSlots(ctx context.Context, socket string) error {
	for {
		config, err := Running(ctx, socket)
		if err == nil {
			if slot := missingSlot(config.ImageStores()); slot != "" {
				err = fmt.Errorf("%w: its configuration has no %s; `crio status config` shows it", ErrWithoutStores, slot)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", ErrWithoutStores, socket, errors.Join(err, ctx.Err()))
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
