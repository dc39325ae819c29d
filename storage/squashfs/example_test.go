package squashfs_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// buffer is a pack in memory. A file is a File as it is.
type buffer struct{ bytes.Buffer }

func (b *buffer) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(b.Bytes()).ReadAt(p, at)
}

func (b *buffer) Close() error { return nil }

// archive is the tar stream of the example.
func archive() io.Reader {
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	const content = "Hello from squashfs\n"
	_ = w.WriteHeader(&tar.Header{Name: "hello", Mode: 0o644, Size: int64(len(content))})
	_, _ = io.WriteString(w, content)
	_ = w.WriteHeader(&tar.Header{Name: "empty", Mode: 0o600})
	_ = w.Close()
	return &stream
}

// A tar stream becomes a squashfs image. Errors are left out; each call has one.
func Example() {
	compressor, _ := squashfs.NewCompressor(squashfs.Options{Compression: squashfs.Zstd})
	defer compressor.Close()

	// First step: contents go into a pack in the order in which they come.
	var pack buffer
	packer := compressor.NewPacker(&pack)
	root := squashfs.NewDir(0o755, 0, 0, 0)
	for entries := tar.NewReader(archive()); ; {
		header, err := entries.Next()
		if err != nil { // io.EOF
			break
		}
		content, _ := packer.Content(entries)
		root.Set(header.Name, &squashfs.Inode{Mode: syscall.S_IFREG | uint32(header.Mode), Content: content})
	}
	used, _ := packer.Reopen(&pack)

	// Second step: packs and a tree become an image.
	writer, _ := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	writer.AddPack(used)
	image, _ := writer.Close(root)
	var file bytes.Buffer
	_, _ = image.WriteTo(&file)

	// A Reader of the image is an io/fs file system.
	reader, _ := squashfs.OpenImage(bytes.NewReader(file.Bytes()), int64(file.Len()))
	_ = fs.WalkDir(reader, ".", func(name string, entry fs.DirEntry, _ error) error {
		info, err := entry.Info()
		fmt.Println(info.Mode(), name)
		return err
	})
	content, _ := fs.ReadFile(reader, "hello")
	fmt.Printf("%s", content)
	// Output:
	// drwxr-xr-x .
	// -rw------- empty
	// -rw-r--r-- hello
	// Hello from squashfs
}
