package compose_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/compose"
)

// blobOf is a layer with the digest of stream that is read as content.
func blobOf(stream, content []byte) compose.Blob {
	return blobFrom(stream, func() io.Reader { return bytes.NewReader(content) })
}

func blobFrom(stream []byte, content func() io.Reader) compose.Blob {
	return compose.Blob{
		DiffID: digest.FromBytes(stream),
		Open:   func(context.Context) (io.ReadCloser, error) { return io.NopCloser(content()), nil },
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t *testing.T, content []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(content, nil)
}

// skippable is a skippable frame of zstd with 3 bytes, n of 0 to 15: RFC 8878, 3.1.2.
func skippable(n byte) []byte { return []byte{0x50 | n, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3} }

// longLayer is larger than the chunks that are decompressed ahead together.
func longLayer(t *testing.T) []byte {
	t.Helper()
	return tarStream(t, sample.File("a", bytesOf(3, 3<<20)), sample.File("b", "x"), sample.File("b", "again"))
}

// The pack of a layer is the same however its blob is compressed, which its first bytes tell.
func TestPacksOfCompressedLayers(t *testing.T) {
	stream := longLayer(t)
	c := newCompressor(t)
	want, err := packLayer(t, c, stream)
	if err != nil {
		t.Fatal(err)
	}
	for name, blob := range map[string][]byte{
		"gzip":                      gzipped(t, stream),
		"gzip in two members":       append(gzipped(t, stream[:1000]), gzipped(t, stream[1000:])...),
		"zstd":                      zstandard(t, stream),
		"zstd behind a first frame": append(skippable(0), zstandard(t, stream)...),
		"zstd behind another frame": append(skippable(15), zstandard(t, stream)...),
	} {
		t.Run(name, func(t *testing.T) {
			for kind, content := range map[string]func() io.Reader{
				"at once":    func() io.Reader { return bytes.NewReader(blob) },
				"in pieces":  func() io.Reader { return iotest.HalfReader(bytes.NewReader(blob)) },
				"with error": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(blob)) },
			} {
				var pack bytes.Buffer
				if err := compose.PackLayer(t.Context(), c, blobFrom(stream, content), &pack, t.TempDir()); err != nil {
					t.Errorf("%s: %v", kind, err)
				} else if !bytes.Equal(pack.Bytes(), want) {
					t.Errorf("%s: got another pack, of %d bytes, want %d", kind, pack.Len(), len(want))
				}
			}
		})
	}
}

var errBlob = errors.New("the blob is another one")

// What is wrong with a blob is one error, the one nearest to the cause.
func TestBlobsThatAreWrong(t *testing.T) {
	stream := longLayer(t)
	zipped, zstandard := gzipped(t, stream), zstandard(t, stream)
	failing := func(content []byte, err error) func() io.Reader {
		return func() io.Reader { return io.MultiReader(bytes.NewReader(content), iotest.ErrReader(err)) }
	}
	whole := func(content []byte) func() io.Reader {
		return func() io.Reader { return bytes.NewReader(content) }
	}
	once := func(content []byte, err error) func() io.Reader {
		return func() io.Reader { return io.MultiReader(bytes.NewReader(content), &failsOnce{err}) }
	}
	damaged := bytes.Clone(stream)
	damaged[0]++ // the header's checksum is wrong
	for name, test := range map[string]struct {
		content   func() io.Reader
		want, not error
	}{
		"gzip cut short":            {whole(zipped[:len(zipped)/2]), compose.ErrCompression, compose.ErrDiffID},
		"gzip without content":      {whole(zipped[:2]), compose.ErrCompression, compose.ErrDiffID},
		"zstd cut short":            {whole(zstandard[:len(zstandard)/2]), compose.ErrCompression, compose.ErrDiffID},
		"xz":                        {whole([]byte("\xfd7zXZ\x00\x00\x04...")), compose.ErrUnsupported, compose.ErrDiffID},
		"bzip2":                     {whole([]byte("BZh91AY&SY...")), compose.ErrUnsupported, compose.ErrDiffID},
		"another layer":             {whole(tarStream(t)), compose.ErrDiffID, compose.ErrCompression},
		"no layer":                  {whole(nil), compose.ErrDiffID, compose.ErrCompression},
		"a byte more":               {whole(append(bytes.Clone(stream), 0)), compose.ErrDiffID, nil},
		"damaged":                   {whole(damaged), compose.ErrDiffID, compose.ErrEntry},
		"failing":                   {failing(stream, errBlob), errBlob, compose.ErrCompression},
		"failing at once":           {failing(nil, errBlob), errBlob, compose.ErrCompression},
		"failing behind gzip":       {failing(zipped, errBlob), errBlob, compose.ErrCompression},
		"failing in gzip":           {failing(zipped[:len(zipped)/2], errBlob), errBlob, nil},
		"failing behind zstd":       {failing(zstandard, errBlob), errBlob, compose.ErrCompression},
		"failing behind bad gzip":   {failing([]byte("\x1f\x8bx"), errBlob), errBlob, compose.ErrCompression},
		"failing behind bad layer":  {failing(damaged, errBlob), errBlob, compose.ErrDiffID},
		"failing with a full disk":  {failing(stream, syscall.ENOSPC), syscall.ENOSPC, compose.ErrEntry},
		"failing for a network":     {failing(nil, syscall.ECONNREFUSED), syscall.ECONNREFUSED, compose.ErrEntry},
		"failing as if at the end":  {once(stream, fmt.Errorf("%w: %w", errBlob, io.EOF)), errBlob, compose.ErrEntry},
		"bytes of a disk behind it": {failing(damaged, syscall.EIO), syscall.EIO, compose.ErrEntry},
	} {
		t.Run(name, func(t *testing.T) {
			blob := blobFrom(stream, test.content)
			err := compose.PackLayer(t.Context(), newCompressor(t), blob, io.Discard, t.TempDir())
			if !errors.Is(err, test.want) || test.not != nil && errors.Is(err, test.not) {
				t.Errorf("PackLayer: got %v, want %v and not %v", err, test.want, test.not)
			}
			_, err = compose.ReadLayer(t.Context(), blob, func(r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				return err
			})
			if !errors.Is(err, test.want) {
				t.Errorf("ReadLayer: got %v, want %v", err, test.want)
			}
		})
	}
}

// A reader that verifies the DiffID of its bytes is believed, unless a stream is made of them.
func TestVerifiedBlobs(t *testing.T) {
	stream := tarStream(t, sample.File("a", "x"))
	for name, tc := range map[string]struct {
		verified bool
		content  []byte
		want     error
	}{
		"itself":                 {true, tarStream(t), nil},
		"not itself":             {false, tarStream(t), compose.ErrDiffID},
		"of a compressed stream": {true, gzipped(t, tarStream(t)), compose.ErrDiffID},
	} {
		t.Run(name, func(t *testing.T) {
			blob := blobOf(stream, tc.content)
			blob.Verified = tc.verified
			err := compose.PackLayer(t.Context(), newCompressor(t), blob, io.Discard, t.TempDir())
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// failsOnce is at its end after an error.
type failsOnce struct{ err error }

func (f *failsOnce) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

// A stream with the right digest that is no layer is the layer's fault.
func TestLayerThatIsNotATar(t *testing.T) {
	stream := bytes.Repeat([]byte("x"), 2000)
	_, err := packLayer(t, newCompressor(t), stream)
	if !errors.Is(err, compose.ErrEntry) || errors.Is(err, compose.ErrDiffID) {
		t.Errorf("got %v, want %v", err, compose.ErrEntry)
	}
}

func TestBlobsThatCannotBeOpenedOrClosed(t *testing.T) {
	stream := tarStream(t, sample.File("a", "x"))
	for name, open := range map[string]func(context.Context) (io.ReadCloser, error){
		"opened": func(context.Context) (io.ReadCloser, error) { return nil, errBlob },
		"closed": func(context.Context) (io.ReadCloser, error) { return failingClose{bytes.NewReader(stream)}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			blob := compose.Blob{DiffID: digest.FromBytes(stream), Open: open}
			if err := compose.PackLayer(t.Context(), newCompressor(t), blob, io.Discard, t.TempDir()); !errors.Is(err, errBlob) {
				t.Errorf("PackLayer: got %v, want %v", err, errBlob)
			}
			if _, err := compose.ReadLayer(t.Context(), blob, readAll); !errors.Is(err, errBlob) {
				t.Errorf("ReadLayer: got %v, want %v", err, errBlob)
			}
		})
	}
}

type failingClose struct{ io.Reader }

func (failingClose) Close() error { return errBlob }

func readAll(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// A layer with entries that replace others is read twice: the second time it may fail, too.
func TestBlobThatFailsWhenReadAgain(t *testing.T) {
	stream := longLayer(t)
	other := bytes.Clone(stream)
	other[1000]++ // in the first file
	for name, test := range map[string]struct {
		second io.Reader
		want   error
	}{
		"another stream":   {bytes.NewReader(other), compose.ErrDiffID},
		"error":            {iotest.ErrReader(errBlob), errBlob},
		"error at the end": {io.MultiReader(bytes.NewReader(stream), iotest.ErrReader(errBlob)), errBlob},
		"equal":            {bytes.NewReader(stream), nil},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			blob := blobFrom(stream, func() io.Reader {
				if reads++; reads > 1 {
					return test.second
				}
				return bytes.NewReader(stream)
			})
			err := compose.PackLayer(t.Context(), newCompressor(t), blob, io.Discard, t.TempDir())
			if !errors.Is(err, test.want) || reads != 2 {
				t.Errorf("got %v after %d reads, want %v after 2", err, reads, test.want)
			}
		})
	}
}

func TestReadLayer(t *testing.T) {
	stream := longLayer(t)
	for name, test := range map[string]struct {
		content []byte
		read    func(io.Reader) error
		want    error
	}{
		"all of it":            {gzipped(t, stream), readAll, nil},
		"a part of it":         {stream, func(r io.Reader) error { _, err := io.CopyN(io.Discard, r, 7); return err }, nil},
		"nothing of it":        {stream, func(io.Reader) error { return nil }, nil},
		"a part of another":    {stream[1:], func(io.Reader) error { return nil }, compose.ErrDiffID},
		"a reader that fails":  {stream, func(io.Reader) error { return errBlob }, errBlob},
		"failing with another": {stream[1:], func(io.Reader) error { return errBlob }, compose.ErrDiffID},
		"full disk with another": {
			stream[1:], func(io.Reader) error { return fmt.Errorf("x: %w", syscall.ENOSPC) }, syscall.ENOSPC,
		},
	} {
		t.Run(name, func(t *testing.T) {
			size, err := compose.ReadLayer(t.Context(), blobOf(stream, test.content), test.read)
			if !errors.Is(err, test.want) || test.want != nil && size != 0 && !errors.Is(err, compose.ErrDiffID) {
				t.Errorf("got %d, %v, want %v", size, err, test.want)
			}
			if test.want == nil && size != int64(len(stream)) {
				t.Errorf("got %d bytes, want %d", size, len(stream))
			}
		})
	}
	var got strings.Builder
	_, err := compose.ReadLayer(t.Context(), blobOf(stream, zstandard(t, stream)), func(r io.Reader) error {
		_, err := io.Copy(&got, iotest.OneByteReader(r))
		return err
	})
	if err != nil || got.String() != string(stream) {
		t.Errorf("got a stream of %d bytes, %v, want the %d that were written", got.Len(), err, len(stream))
	}
}

// A read that is no longer wanted ends with that, whatever else may be wrong.
func TestCancelledLayers(t *testing.T) {
	stream := longLayer(t)
	ctx, stop := context.WithCancel(t.Context())
	_, err := compose.ReadLayer(ctx, blobOf(stream, stream[1:]), func(r io.Reader) error {
		stop()
		return errBlob
	})
	if !errors.Is(err, errBlob) {
		t.Errorf("got %v, want %v", err, errBlob)
	}
	if _, err := compose.ReadLayer(ctx, blobOf(stream, stream), readAll); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
