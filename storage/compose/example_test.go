package compose_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Two layers become a containers/storage store in a squashfs image. Errors are left
// out; each call has one.
func Example() {
	compressor, _ := squashfs.NewCompressor(squashfs.Options{})
	defer compressor.Close()
	image, _ := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	store, _ := compose.NewStore(image, compressor, time.Unix(0, 0), os.TempDir())

	top := ""
	for _, names := range [][]string{{"etc/motd", "etc/old"}, {"etc/.wh.old"}} { // which deletes etc/old
		top = addLayer(store, compressor, top, names)
	}
	manifest := []byte(`{"schemaVersion":2}`)
	store.AddImage(compose.Image{
		Names:    []string{"quay.io/site/app@" + digest.FromBytes(manifest).String()},
		TopLayer: top, Manifest: manifest, Config: []byte(`{}`), Created: time.Unix(0, 0),
	})
	root, _ := store.Close()
	laidOut, _ := image.Close(root)
	var file bytes.Buffer
	_, _ = laidOut.WriteTo(&file)

	// The names of the store's folders are functions of its content; they are cut here.
	reader, _ := squashfs.OpenImage(bytes.NewReader(file.Bytes()), int64(file.Len()))
	_ = fs.WalkDir(reader, ".", func(name string, entry fs.DirEntry, err error) error {
		parts := strings.Split(name, "/")
		for i, part := range parts {
			if len(part) > 20 {
				parts[i] = part[:12] + "…"
			}
		}
		if !entry.IsDir() {
			fmt.Println(strings.Join(parts, "/"))
		}
		return err
	})
	// Output:
	// overlay/e022803e1ba3…/diff/etc/motd
	// overlay/e022803e1ba3…/diff/etc/old
	// overlay/e022803e1ba3…/link
	// overlay/f714eacea4ee…/diff/etc/old
	// overlay/f714eacea4ee…/link
	// overlay/f714eacea4ee…/lower
	// overlay/f714eacea4ee…/lower-layers
	// overlay/l/2FMJS5MB46AE…
	// overlay/l/RPQFSWWDNHT6…
	// overlay-images/44136fa355b3…/=bWFuaWZlc3Q…
	// overlay-images/44136fa355b3…/=c2hhMjU2OjQ…
	// overlay-images/44136fa355b3…/manifest
	// overlay-images/images.json
	// overlay-images/images.lock
	// overlay-layers/e022803e1ba3…
	// overlay-layers/f714eacea4ee…
	// overlay-layers/layers.json
	// overlay-layers/layers.lock
}

// addLayer packs a layer of empty files, adds it, and gives its ID.
func addLayer(store *compose.Store, compressor *squashfs.Compressor, parent string, names []string) string {
	var stream, pack bytes.Buffer
	w := tar.NewWriter(&stream)
	for _, name := range names {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644})
	}
	_ = w.Close()
	diffID := digest.FromBytes(stream.Bytes())
	blob := compose.Blob{DiffID: diffID, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(stream.Bytes())), nil
	}}
	_ = compose.PackLayer(context.Background(), compressor, blob, &pack, os.TempDir())
	unpacked, _ := store.AddLayer(
		compose.Layer{Parent: parent, Digest: diffID, Size: int64(stream.Len()), DiffID: diffID},
		source{bytes.NewReader(pack.Bytes())}, int64(pack.Len()))
	return unpacked.ID
}
