package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
)

// Errors of a folder that is not pushed.
var (
	ErrNotAttachable = errors.New("nodes cannot attach its store, which is not one file")
	ErrPrivate       = errors.New("only its owner may read the store: it has secrets of the nodes' configuration")
)

// PushOptions are the parameters of Push.
type PushOptions struct {
	// Dir is the folder of a delta or an appliance, To a name that begins with layout.PushedScheme.
	Dir, To string
	// Access has the options for requests to the registry.
	Access storage.Access
	// Hooks report progress.
	Hooks progress.Hooks
}

// PushResult is the result of Push.
type PushResult struct {
	// Reference is the name by which nodes attach the store, with a digest.
	Reference string `json:"reference"`
	// Files are those of the artifact, Bytes their sizes, and Sent what the registry lacked.
	Files    []string `json:"files"`
	Bytes    int64    `json:"bytes"`
	Sent     int64    `json:"sent"`
	Warnings []string `json:"warnings,omitempty"`
}

// Push puts what a node needs of a folder into a registry, as an OCI artifact: the store with its description, lock,
// sums and signatures, but not the configs, which may have secrets. Equal folders give equal artifacts.
func Push(ctx context.Context, o PushOptions) (r PushResult, err error) {
	to, ok := strings.CutPrefix(o.To, layout.PushedScheme)
	if !ok {
		return r, fmt.Errorf("%q: %w: it does not begin with %s", o.To, storage.ErrDestination, layout.PushedScheme)
	}
	files, err := pushedFiles(ctx, o)
	if err != nil {
		return r, err
	}
	manifest, err := layout.EncodePushed(files)
	if err != nil {
		return r, err
	}
	o.Access.Retrying = o.Hooks.Retrying
	client, err := storage.NewClient(o.Access, "linux/amd64") // an artifact is of no platform
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	blobs := []storage.Upload{storage.UploadOf("configuration", layout.EmptyConfig())}
	for _, f := range files {
		r.Files, r.Bytes = append(r.Files, f.Name), r.Bytes+f.Size
		blobs = append(blobs, storage.Upload{Name: f.Name, Digest: f.Digest, Size: f.Size,
			Open: func() (io.ReadCloser, error) { return input.Open(filepath.Join(o.Dir, f.Name)) }})
	}
	o.Hooks.Begin("push "+o.Dir, r.Bytes+blobs[0].Size)
	pushed, err := storage.Push(ctx, client, to, manifest, blobs, o.Hooks.Done)
	r.Reference, r.Sent, r.Warnings = layout.PushedScheme+pushed.Reference, pushed.Sent, client.Warnings()
	return r, err
}

// pushedFiles finds the files of a folder that are pushed, and compares them with the sums.
func pushedFiles(ctx context.Context, o PushOptions) (files []layout.PushedFile, err error) {
	sums, err := ReadSums(o.Dir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(layout.AttachableStores(), func(name string) bool { return sums[name] != "" })
	if i < 0 {
		return nil, fmt.Errorf("%s: %w", o.Dir, ErrNotAttachable)
	}
	store := layout.AttachableStores()[i]
	if fi, err := os.Stat(filepath.Join(o.Dir, store)); err == nil && fi.Mode().Perm()&0o044 == 0 {
		return nil, fmt.Errorf("%s: %w", filepath.Join(o.Dir, store), ErrPrivate)
	}
	names := []string{store, layout.RootHashFile(store), DeltaFile, LockFile, ProvenanceFile, SumsFile}
	for _, suffix := range layout.SignatureSuffixes() {
		names = append(names, store+suffix, SumsFile+suffix)
	}
	for _, name := range names {
		f, err := pushedFile(ctx, filepath.Join(o.Dir, name), sums[name], o.Hooks)
		if errors.Is(err, fs.ErrNotExist) && sums[name] == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// pushedFile hashes a file, and compares it with its sum; "" is of a file that has none.
func pushedFile(ctx context.Context, name, sum string, hooks progress.Hooks) (layout.PushedFile, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return layout.PushedFile{}, err
	}
	got, err := SumFile(ctx, name, hooks)
	if err == nil && sum != "" && got != sum {
		err = fmt.Errorf("%s: %w: it has changed: SHA-256 %s, want %s", name, ErrVerify, got, sum)
	}
	return layout.PushedFile{
		Name: filepath.Base(name), Size: fi.Size(), Digest: digest.NewDigestFromEncoded(digest.SHA256, got),
	}, err
}
