package compose_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// manyFiles writes a tar stream of so many small files, ten in a folder.
func manyFiles(w io.Writer, n int) error {
	stream := tar.NewWriter(w)
	for i := range n {
		name := fmt.Sprintf("usr/share/%d/%d/a-file-with-a-name-%d", i/1000, i/10, i)
		if err := stream.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(name))}); err != nil {
			return err
		}
		if _, err := io.WriteString(stream, name); err != nil {
			return err
		}
	}
	return stream.Close()
}

// heap returns the memory that is in use, in bytes, without what a sync.Pool has, which outlives one collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a layer of many files holds in memory grows by less than 200 bytes with each file while it is packed, and by
// less than 100 when its pack is open. A bug was 365 bytes for each: 320 MB for half a million files.
//
// The same holds for empty folders, of which each was 460 bytes, and for further names of a file.
func TestMemoryOfManyFiles(t *testing.T) {
	const n = 50_000
	for name, write := range map[string]func(io.Writer, int) error{
		"files": manyFiles, "folders": manyFolders, "links": manyLinks,
	} {
		t.Run(name, func(t *testing.T) {
			packing, open := memoryOfFiles(t, write, n)
			packing2, open2 := memoryOfFiles(t, write, 2*n)
			if got := (packing2 - packing) / n; got > 200 {
				t.Errorf("packing: got %d bytes for each more file, want at most 200", got)
			}
			if got := (open2 - open) / n; got > 100 {
				t.Errorf("an open pack: got %d bytes for each more file, want at most 100", got)
			}
		})
	}
}

// manyFolders writes a tar stream of so many empty folders, a thousand in each other one.
func manyFolders(w io.Writer, n int) error {
	stream := tar.NewWriter(w)
	for i := range n {
		name := fmt.Sprintf("%d/a-folder-with-a-name-%d/", i/1000, i)
		if err := stream.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
			return err
		}
	}
	return stream.Close()
}

// manyLinks writes a tar stream of one file with so many further names.
func manyLinks(w io.Writer, n int) error {
	stream := tar.NewWriter(w)
	if err := stream.WriteHeader(&tar.Header{Name: "file", Mode: 0o644}); err != nil {
		return err
	}
	for i := range n {
		name := fmt.Sprintf("%d/a-link-with-a-name-%d", i/1000, i)
		err := stream.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: "file", Mode: 0o644})
		if err != nil {
			return err
		}
	}
	return stream.Close()
}

// memoryOfFiles packs a layer of n files. It returns what is in use at the end of the tar stream, and then for the
// open pack, in bytes.
func memoryOfFiles(t *testing.T, write func(io.Writer, int) error, n int) (packing, open int64) {
	sum := sha256.New()
	if err := write(sum, n); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	compressor, err := squashfs.NewCompressor(squashfs.Options{Tmp: tmp, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	file, err := os.Create(filepath.Join(tmp, "pack"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = compose.PackLayer(t.Context(), compressor, compose.Blob{
		DiffID: digest.NewDigest(digest.SHA256, sum),
		Open: func(context.Context) (io.ReadCloser, error) {
			r, w := io.Pipe()
			go func() {
				out := bufio.NewWriter(w)
				err := errors.Join(write(out, n), out.Flush())
				packing = heap()
				w.CloseWithError(err)
			}()
			return r, nil
		},
	}, file, tmp)
	if err != nil {
		t.Fatal(err)
	}
	fi, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	pack, err := compressor.OpenPack(file, fi.Size())
	if err != nil {
		t.Fatal(err)
	}
	open = heap() - before
	runtime.KeepAlive(pack)
	return packing, open
}

// A store that is composed holds at most 1,100 bytes for each layer. It was 3,400, which is 340 MB for 100,000 layers,
// and then 1,200.
func TestMemoryOfManyLayers(t *testing.T) {
	const images, layers = 60, 50
	compressor := newCompressor(t)
	out, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(1000, 0)))
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, out, compressor)
	defer s.Abort()
	before := int64(0)
	for i := range 2 * images {
		if i == images {
			before = heap()
		}
		addMany(t, s, compressor, i, layers)
	}
	if got := (heap() - before) / images / layers; got > 1100 {
		t.Errorf("got %d bytes for each more layer, want at most 1100", got)
	}
}

// A layer of which much is known in files without names has the same pack as one of which all is in memory: also if
// its first files get further names, are replaced or deleted, when they are no longer in memory.
func TestPackOfManyFilesIsTheSame(t *testing.T) {
	const n = 80_000
	var stream bytes.Buffer
	if err := manyFiles(&stream, n); err != nil {
		t.Fatal(err)
	}
	stream.Truncate(stream.Len() - 1024) // the end of the stream
	w := tar.NewWriter(&stream)
	for _, h := range []*tar.Header{
		{Name: "link", Typeflag: tar.TypeLink, Linkname: "usr/share/75/7500/a-file-with-a-name-75001", Mode: 0o600},
		{Name: "usr/share/75/7500/a-file-with-a-name-75002", Typeflag: tar.TypeReg, Mode: 0o600},
		{Name: "usr/share/75/7500/.wh.a-file-with-a-name-75003"},
		{Name: "usr/share/75/7500/a-file-with-a-name-75004", Typeflag: tar.TypeDir, Mode: 0o700},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, tmp := range []string{"", t.TempDir()} {
		compressor, err := squashfs.NewCompressor(squashfs.Options{Tmp: tmp})
		if err != nil {
			t.Fatal(err)
		}
		defer compressor.Close()
		var pack bytes.Buffer
		if err := compose.PackLayer(t.Context(), compressor, blobOf(stream.Bytes(), stream.Bytes()), &pack, tmp); err != nil {
			t.Fatal(err)
		}
		sums = append(sums, fmt.Sprintf("%d bytes, %x", pack.Len(), sha256.Sum256(pack.Bytes())))
	}
	if sums[0] != sums[1] {
		t.Errorf("got %s in memory and %s in files, want the same", sums[0], sums[1])
	}
}
