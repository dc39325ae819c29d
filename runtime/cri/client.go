package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// DefaultSocket is where CRI-O listens.
const DefaultSocket = "/var/run/crio/crio.sock"

// maxMessage is the limit of an answer in bytes. It is the kubelet's limit; lists of several
// hundred images need it.
const maxMessage = 16 << 20

// answerTime is the time limit of a call that CRI-O answers from memory. Pulls have none.
const answerTime = 2 * time.Minute

// reconnect tries the socket often enough that a restart of CRI-O causes no delay.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{
		BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
	},
	MinConnectTimeout: 5 * time.Second,
}

// Client is a connection to one container runtime.
type Client struct {
	socket  string
	conn    *grpc.ClientConn
	images  criapi.ImageServiceClient
	runtime criapi.RuntimeServiceClient
}

// Dial prepares a connection to a socket, which need not exist yet.
func Dial(socket string) (*Client, error) {
	socket = strings.TrimPrefix(socket, "unix://") // the form that crictl takes
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

// Version waits until the runtime answers, and returns its name and version.
func (c *Client) Version(ctx context.Context) (name, version string, err error) {
	if conn, err := net.Dial("unix", c.socket); err == nil {
		_ = conn.Close() // nothing was sent
	} else if errors.Is(err, fs.ErrPermission) {
		return "", "", fmt.Errorf("%w: %s: permission denied", ErrNoAnswer, c.socket) // waiting does not help
	}
	v, err := c.runtime.Version(ctx, &criapi.VersionRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", "", fmt.Errorf("%w on %s: %s", ErrNoAnswer, c.socket, cause(err))
	}
	return v.RuntimeName, v.RuntimeVersion, nil
}

// ErrNoAnswer is a runtime that does not answer.
var ErrNoAnswer = fault.New(fault.Other, "CRI-O does not answer",
	"check that crio.service runs, and run it as root; the setting socket is the path of its socket")

// cause is the innermost error text, which gRPC wraps in others.
func cause(err error) string {
	parts := strings.Split(status.Convert(err).Message(), `desc = "`)
	return strings.TrimPrefix(strings.TrimSuffix(parts[len(parts)-1], `"`), "transport: ")
}

// List returns all images, in one call. An image that is in several stores is listed once for each.
func (c *Client) List(ctx context.Context) ([]pinset.StoredImage, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	list, err := c.images.ListImages(ctx, &criapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	stored := make([]pinset.StoredImage, len(list.Images))
	for i, img := range list.Images {
		stored[i] = pinset.StoredImage{ID: img.Id, Names: append(img.RepoDigests, img.RepoTags...), Pinned: img.Pinned}
	}
	return stored, nil
}

// Pull pulls an image, with the credentials that the runtime itself finds for each endpoint. It
// waits for a runtime that does not run, and has no time limit but ctx. CRI answers once, at the end, and
// never says how far a layer is.
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

// ImagesInUse returns the IDs and names of the images that containers have, running or not.
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

// Pod is a pod that runs, or that the kubelet starts.
type Pod struct {
	// Name is NAMESPACE/NAME.
	Name string
	// Images are the names and IDs of the images of its containers.
	Images []string
}

// Pods returns the pods with a sandbox that is ready. A pod without images waits for its first one: its
// image is being pulled, or cannot be pulled.
func (c *Client) Pods(ctx context.Context) ([]Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	sandboxes, err := c.runtime.ListPodSandbox(ctx, &criapi.ListPodSandboxRequest{Filter: &criapi.PodSandboxFilter{
		State: &criapi.PodSandboxStateValue{State: criapi.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	containers, err := c.runtime.ListContainers(ctx, &criapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	pods := make([]Pod, len(sandboxes.Items))
	for i, s := range sandboxes.Items {
		pods[i].Name = s.Metadata.GetNamespace() + "/" + s.Metadata.GetName()
		for _, container := range containers.Containers {
			if container.PodSandboxId == s.Id {
				pods[i].Images = append(pods[i].Images, container.ImageId, container.ImageRef,
					container.Image.GetImage(), container.Image.GetUserSpecifiedImage())
			}
		}
	}
	return pods, nil
}

// GraphRoot returns the graph root that images are pulled to. CRI-O reports the folder of its image
// records, overlay-images.
func (c *Client) GraphRoot(ctx context.Context) (string, error) {
	roots, err := c.GraphRoots(ctx)
	if err != nil {
		return "", err
	}
	return roots[0], nil
}

// GraphRoots returns the graph roots of the main store: the one that images are pulled to, and that
// of the containers if it is another, with imagestore in storage.conf.
func (c *Client) GraphRoots(ctx context.Context) (roots []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := c.images.ImageFsInfo(ctx, &criapi.ImageFsInfoRequest{})
	// CRI-O walks its records, and fails if a pull renames one meanwhile.
	for tries := 1; err != nil && tries < 10 && ctx.Err() == nil; tries++ {
		time.Sleep(50 * time.Millisecond)
		info, err = c.images.ImageFsInfo(ctx, &criapi.ImageFsInfoRequest{})
	}
	if err != nil {
		return nil, fmt.Errorf("image file system: %w", err)
	}
	for _, filesystems := range [][]*criapi.FilesystemUsage{info.ImageFilesystems, info.ContainerFilesystems} {
		i := slices.IndexFunc(filesystems, func(fs *criapi.FilesystemUsage) bool { return fs.FsId.GetMountpoint() != "" })
		if i < 0 {
			return nil, fmt.Errorf("image file system: the runtime reports none")
		}
		if root := filepath.Dir(filesystems[i].FsId.Mountpoint); !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

// PauseImage returns the image of pods themselves, which is always pinned; "" if the runtime does
// not report it.
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
