package verity_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/verity"
)

// data returns bytes that depend only on the size.
func data(size int64) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(b) // it never fails
	return b
}

// write returns a file with a tree. It writes the data in pieces of the size in bytes.
func write(t testing.TB, content []byte, piece int) ([]byte, verity.Tree) {
	t.Helper()
	scratch, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	var out bytes.Buffer
	w := verity.NewWriter(&out, int64(len(content)), scratch)
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{bytes.NewReader(content)},
		make([]byte, piece)); err != nil {
		t.Fatal(err)
	}
	tree, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), tree
}

// check checks a file in pieces of the size in bytes.
func check(file []byte, piece int) (verity.Tree, error) {
	c := verity.NewChecker(int64(len(file)))
	for at := 0; at < len(file); at += piece {
		_, _ = c.Write(file[at:min(at+piece, len(file))]) // it never fails
	}
	return c.Tree()
}

// sizes are sizes of data around those from which on a tree has one more level.
var sizes = []int64{1, 4096, 4097, 127 * 4096, 128 * 4096, 128*4096 + 1, 129 * 4096, 300 * 4096, 128*128*4096 - 5,
	128 * 128 * 4096, 128*128*4096 + 4096}

// veritysetup writes the same tree.
func TestTreeEqualsVeritysetup(t *testing.T) {
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			got, tree := write(t, data(size), 1<<20)
			if int64(len(got)) != verity.Size(size) {
				t.Errorf("got %d bytes, want %d", len(got), verity.Size(size))
			}
			dir := t.TempDir()
			file, root := filepath.Join(dir, "file"), filepath.Join(dir, "root")
			offset := fmt.Sprintf("--hash-offset=%d", tree.Blocks*verity.BlockSize)
			if err := errors.Join(os.WriteFile(file, got[:tree.Blocks*verity.BlockSize], 0o600),
				os.WriteFile(root, tree.RootHash(), 0o600)); err != nil {
				t.Fatal(err)
			}
			uuid := fmt.Sprintf("%x", got[tree.Blocks*verity.BlockSize+16:][:16])
			output := fixtures.Run(t, "veritysetup", "format", file, file, offset, "--salt=-",
				fmt.Sprintf("--data-blocks=%d", tree.Blocks), "--uuid",
				strings.Join([]string{uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]}, "-"))
			if !strings.Contains(output, tree.Root.Encoded()) {
				t.Errorf("got root %s, want that in\n%s", tree.Root.Encoded(), output)
			}
			want, err := os.ReadFile(file)
			if err != nil || !bytes.HasPrefix(got, want) || len(bytes.Trim(got[len(want):], "\x00")) > 0 {
				t.Errorf("got another file, %v; want that of veritysetup", err)
			}
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
			fixtures.Run(t, "veritysetup", "verify", file, file, offset, "--root-hash-file", root)
		})
	}
}

func TestPiecesDoNotMatter(t *testing.T) {
	content := data(300*4096 + 5)
	want, tree := write(t, content, len(content))
	for _, piece := range []int{1, 4095, 4097, 10_000} {
		if got, again := write(t, content, piece); again != tree || !bytes.Equal(got, want) {
			t.Errorf("pieces of %d bytes: got another file, root %s, want %s", piece, again.Root, tree.Root)
		}
		if got, err := check(want, piece); err != nil || got != tree {
			t.Errorf("pieces of %d bytes: got %v, %v, want %v", piece, got, err, tree)
		}
	}
}

func TestCheckerFindsEveryFlip(t *testing.T) {
	for _, size := range sizes[:6] {
		good, tree := write(t, data(size), 1<<20)
		if got, err := check(good, 1<<16); err != nil || got != tree {
			t.Fatalf("size %d: got %v, %v, want %v", size, got, err, tree)
		}
		head := tree.Blocks * verity.BlockSize
		for at := int64(0); at < int64(len(good)); at += 1 + int64(len(good))/199 {
			bad := bytes.Clone(good)
			bad[at] ^= 0x10
			want := verity.ErrDiffers
			if at >= head && at < head+8 {
				want = verity.ErrNoTree
			}
			if _, err := check(bad, 1<<16); !errors.Is(err, want) {
				t.Fatalf("size %d, flip at %d: got %v, want %v", size, at, err, want)
			}
		}
		for at := head; at < head+512; at++ {
			bad := bytes.Clone(good)
			bad[at] ^= 1
			if _, err := check(bad, 1<<16); err == nil {
				t.Fatalf("size %d, flip at %d of the superblock: got no error", size, at-head)
			}
		}
	}
}

// The error says where a byte was changed. A bug was that one in the data was "another superblock".
func TestCheckerSaysWhatWasChanged(t *testing.T) {
	good, tree := write(t, data(300*verity.BlockSize), 1<<20)
	head := tree.Blocks * verity.BlockSize
	for at, want := range map[int64]string{
		7: "the data was changed", head - 1: "the data was changed", head + 16: "the UUID is not that of the data",
		head + 100: "the superblock was changed", head + verity.BlockSize: "level 1 of the tree was changed",
		head + 2*verity.BlockSize: "level 0 of the tree was changed",
	} {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		if _, err := check(bad, 1<<16); !errors.Is(err, verity.ErrDiffers) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("byte %d: got %v, want %q", at, err, want)
		}
	}
}

func TestFilesWithoutATree(t *testing.T) {
	good, tree := write(t, data(300*4096), 1<<20)
	foreign := bytes.Clone(good)
	foreign[tree.Blocks*verity.BlockSize+80] = 32 // a salt
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"empty":         {nil, verity.ErrNoTree},
		"only data":     {good[:tree.Blocks*verity.BlockSize], verity.ErrNoTree},
		"odd size":      {good[:len(good)-1], verity.ErrNoTree},
		"block missing": {good[:len(good)-verity.BlockSize], verity.ErrNoTree},
		"block added":   {append(bytes.Clone(good), make([]byte, verity.BlockSize)...), verity.ErrNoTree},
		"zeros":         {make([]byte, len(good)), verity.ErrNoTree},
		"with a salt":   {foreign, verity.ErrSuperblock},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := check(c.file, 1<<16); !errors.Is(err, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	_, tree := write(t, data(2*4096), 4096)
	want := "0 16 verity 1 /dev/vda1 /dev/vda1 4096 4096 2 3 sha256 " + tree.Root.Encoded() + " -"
	if got := tree.Table("/dev/vda1"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The writer refuses data of another size.
func TestOtherSizeOfTheData(t *testing.T) {
	for _, size := range []int64{0, 5, 7} {
		w := verity.NewWriter(io.Discard, size, nil)
		_, err := w.Write(make([]byte, 6))
		if _, closeErr := w.Close(); err == nil && closeErr == nil {
			t.Errorf("got no error for 6 bytes, want one: the size is %d", size)
		}
	}
}

// The tree of 20 GB has 160 MB, but a Checker needs the memory of a few blocks.
func TestMemoryDoesNotGrowWithTheData(t *testing.T) {
	const size = int64(4 << 30)
	piece := make([]byte, 1<<20)
	got := testing.AllocsPerRun(1, func() {
		c := verity.NewChecker(verity.Size(size))
		for at := int64(0); at < size>>4; at += int64(len(piece)) {
			_, _ = c.Write(piece)
		}
	})
	if got > 100 {
		t.Errorf("got %.0f allocations for 256 MiB, want at most 100", got)
	}
}

func FuzzParseSuperblock(f *testing.F) {
	file, tree := write(f, data(2*4096), 4096)
	f.Add(file[tree.Blocks*verity.BlockSize:][:verity.BlockSize])
	f.Add([]byte("verity\x00\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		blocks, err := verity.ParseSuperblock(b)
		if (err == nil) != (blocks > 0) {
			t.Errorf("got %d blocks, %v; want either blocks or an error", blocks, err)
		}
		if err != nil && !errors.Is(err, verity.ErrSuperblock) {
			t.Errorf("got %v, want ErrSuperblock", err)
		}
	})
}

func BenchmarkChecker(b *testing.B) {
	piece := make([]byte, 4<<20)
	b.SetBytes(int64(len(piece)))
	c := verity.NewChecker(verity.Size(1 << 50))
	for b.Loop() {
		_, _ = c.Write(piece)
	}
}
