package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/storage/pinset"
)

// DefaultSocket is where CRI-O listens.
const DefaultSocket = "/var/run/crio/crio.sock"

// maxMessage bounds an answer in bytes: the kubelet's own limit, which lists of
// several hundred images need.
const maxMessage = 16 << 20

// answerTime is how long a question may take that is answered from memory. Pulls
// take what they take.
const answerTime = 2 * time.Minute

// reconnect tries a socket often enough that a restart of CRI-O costs no time.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{
		BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
	},
	MinConnectTimeout: 5 * time.Second,
}

// Client talks to one runtime.
type Client struct {
	socket  string
	conn    *grpc.ClientConn
	images  criapi.ImageServiceClient
	runtime criapi.RuntimeServiceClient
}

// Dial prepares a connection to a socket; it need not be there yet.
func Dial(socket string) (*Client, error) {
	socket = strings.TrimPrefix(socket, "unix://") // as crictl has it
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(reconnect),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	return &Client{
		socket: socket, conn: conn, images: criapi.NewImageServiceClient(conn), runtime: criapi.NewRuntimeServiceClient(conn),
	}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Version waits until the runtime answers, and tells its name and version.
func (c *Client) Version(ctx context.Context) (name, version string, err error) {
	if conn, err := net.Dial("unix", c.socket); err == nil {
		_ = conn.Close() // it was a knock at the door
	} else if errors.Is(err, fs.ErrPermission) {
		return "", "", fmt.Errorf("%w: %s: permission denied", ErrNoAnswer, c.socket) // which no waiting cures
	}
	v, err := c.runtime.Version(ctx, &criapi.VersionRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", "", fmt.Errorf("%w on %s: %s", ErrNoAnswer, c.socket, cause(err))
	}
	return v.RuntimeName, v.RuntimeVersion, nil
}

// ErrNoAnswer says that nobody is there to answer.
var ErrNoAnswer = errors.New("CRI-O does not answer")

// cause is the last thing that gRPC says, which is where it wraps what happened.
func cause(err error) string {
	parts := strings.Split(status.Convert(err).Message(), `desc = "`)
	return strings.TrimPrefix(strings.TrimSuffix(parts[len(parts)-1], `"`), "transport: ")
}

// List tells all images, in one call. An image that is in several stores is
// listed as often.
func (c *Client) List(ctx context.Context) ([]pinset.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	list, err := c.images.ListImages(ctx, &criapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	stored := make([]pinset.Stored, len(list.Images))
	for i, img := range list.Images {
		stored[i] = pinset.Stored{ID: img.Id, Names: append(img.RepoDigests, img.RepoTags...), Pinned: img.Pinned}
	}
	return stored, nil
}

// Pull fetches an image, with the credentials that the runtime itself finds for
// each endpoint. It waits for a runtime that is away, and ends with ctx only.
func (c *Client) Pull(ctx context.Context, img pinset.Image) error {
	_, err := c.images.PullImage(ctx, &criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: img.String()}},
		grpc.WaitForReady(true))
	return err
}

// Remove removes a name of an image, and with its last name the image.
func (c *Client) Remove(ctx context.Context, img pinset.Image) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := c.images.RemoveImage(ctx, &criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: img.String()}})
	return err
}

// ImagesInUse tells the IDs and names of the images that containers have, running or not.
func (c *Client) ImagesInUse(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	list, err := c.runtime.ListContainers(ctx, &criapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	used := map[string]bool{}
	for _, container := range list.Containers {
		used[container.ImageId], used[container.ImageRef], used[container.Image.GetImage()] = true, true, true
	}
	return used, nil
}

// GraphRoot tells the root of the store that images are pulled to. (CRI-O gives the
// folder of its image records, overlay-images, and no sizes worth having.)
func (c *Client) GraphRoot(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := c.images.ImageFsInfo(ctx, &criapi.ImageFsInfoRequest{})
	// CRI-O walks through its records, and stumbles over one that a pull renames
	// at that moment.
	for tries := 1; err != nil && tries < 10 && ctx.Err() == nil; tries++ {
		time.Sleep(50 * time.Millisecond)
		info, err = c.images.ImageFsInfo(ctx, &criapi.ImageFsInfoRequest{})
	}
	if err != nil {
		return "", fmt.Errorf("image file system: %w", err)
	}
	for _, fs := range info.ImageFilesystems {
		if mountpoint := fs.FsId.GetMountpoint(); mountpoint != "" {
			return filepath.Dir(mountpoint), nil
		}
	}
	return "", fmt.Errorf("image file system: the runtime names none")
}

// PauseImage tells the image of pods themselves, which is always pinned; "" if the
// runtime does not say.
func (c *Client) PauseImage(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	status, err := c.runtime.Status(ctx, &criapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", fmt.Errorf("runtime status: %w", err)
	}
	var config struct {
		SandboxImage string `json:"sandboxImage"`
	}
	if err := json.Unmarshal([]byte(status.Info["config"]), &config); err != nil {
		return "", nil // an older version
	}
	return config.SandboxImage, nil
}
