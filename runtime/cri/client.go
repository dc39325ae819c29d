// Package cri asks a container runtime for its images.
package cri

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/storage/pinset"
)

// DefaultSocket is where CRI-O listens.
const DefaultSocket = "/var/run/crio/crio.sock"

// maxMessage bounds an answer in bytes: the kubelet's own limit, which lists of
// several hundred images need.
const maxMessage = 16 << 20

// Client talks to one runtime.
type Client struct {
	conn    *grpc.ClientConn
	images  criapi.ImageServiceClient
	runtime criapi.RuntimeServiceClient
}

// Dial prepares a connection to a socket; it need not be there yet.
func Dial(socket string) (*Client, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	return &Client{conn: conn, images: criapi.NewImageServiceClient(conn), runtime: criapi.NewRuntimeServiceClient(conn)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Version waits until the runtime answers, and tells its name and version.
func (c *Client) Version(ctx context.Context) (string, error) {
	v, err := c.runtime.Version(ctx, &criapi.VersionRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", fmt.Errorf("CRI-O does not answer on %s: %w", c.conn.Target(), err)
	}
	return v.RuntimeName + " " + v.RuntimeVersion, nil
}

// List tells for every image that has a digest whether it is pinned. An image
// may be in several stores: it is pinned if one of its records is.
func (c *Client) List(ctx context.Context) (map[pinset.Image]bool, error) {
	list, err := c.images.ListImages(ctx, &criapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	present := map[pinset.Image]bool{}
	for _, record := range list.Images {
		for _, name := range record.RepoDigests {
			if img, err := pinset.ParseImage(name); err == nil { // other names are never pins
				present[img] = present[img] || record.Pinned
			}
		}
	}
	return present, nil
}
