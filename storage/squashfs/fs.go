package squashfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"time"
)

// maxReadFile is the largest file that ReadFile reads, in bytes.
const maxReadFile = 64 << 20

// walk finds the inode of a path.
func (r *Reader) walk(op, name string) (*node, error) {
	fail := func(err error) (*node, error) { return nil, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(strings.ToValidUTF8(name, "?")) { // names of a layer need not be UTF-8
		return fail(fs.ErrInvalid)
	}
	dir := name[:strings.LastIndex(name, "/")+1]
	n, rest := r.folder, name[len(dir):]
	if n == nil || dir != r.folderPath {
		var err error
		if n, err = r.node(r.sb.Root); err == nil && n.kind != typeDir {
			err = damaged("the root is not a directory")
		}
		if err != nil {
			return fail(err)
		}
		rest = name
	}
	folder := n
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(rest, "/") {
		e, ok, err := r.find(n, part)
		if err != nil {
			return fail(err)
		}
		if !ok {
			return fail(fs.ErrNotExist)
		}
		folder = n
		if n, err = r.child(e); err != nil {
			return fail(err)
		}
	}
	r.folder, r.folderPath = folder, dir
	return n, nil
}

// Open opens a file of any kind. Only directories and regular files can be read.
func (r *Reader) Open(name string) (fs.File, error) {
	n, err := r.walk("open", name)
	if err != nil {
		return nil, err
	}
	if n.kind == typeDir {
		return &openDir{info: newInfo(name, n), r: r, n: n, path: name}, nil
	}
	return &openFile{info: newInfo(name, n), data: data{r: r, n: n, words: n.blocks}}, nil
}

// Stat is Lstat: a Reader follows no symbolic links.
func (r *Reader) Stat(name string) (fs.FileInfo, error) { return r.Lstat(name) }

// Lstat returns the name, size, mode and time stamp of a file.
func (r *Reader) Lstat(name string) (fs.FileInfo, error) {
	n, err := r.walk("stat", name)
	if err != nil {
		return nil, err
	}
	return newInfo(name, n), nil
}

// ReadLink returns the target of a symbolic link.
func (r *Reader) ReadLink(name string) (string, error) {
	n, err := r.walk("readlink", name)
	if err != nil {
		return "", err
	}
	if n.kind != typeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return n.target, nil
}

// ReadDir lists a directory, in the order of names.
func (r *Reader) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := r.walk("readdir", name)
	if err != nil {
		return nil, err
	}
	return (&openDir{r: r, n: n, path: name}).ReadDir(0)
}

// ReadFile reads a file of up to 64 MiB.
func (r *Reader) ReadFile(name string) ([]byte, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxReadFile+1))
	if err == nil && len(content) > maxReadFile {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: more than %d bytes", syscall.EFBIG, maxReadFile)}
	}
	return content, err
}

// info is the fs.FileInfo of a file.
type info struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
}

func newInfo(name string, n *node) info {
	i := info{
		name: name[strings.LastIndex(name, "/")+1:], mode: fileMode(n.mode()), modTime: time.Unix(int64(n.ModTime), 0),
	}
	switch n.kind {
	case typeFile:
		i.size = int64(n.size)
	case typeSymlink:
		i.size = int64(len(n.target))
	}
	return i
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Mode() fs.FileMode          { return i.mode }
func (i info) ModTime() time.Time         { return i.modTime }
func (i info) IsDir() bool                { return i.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Stat() (fs.FileInfo, error) { return i, nil }
func (i info) Close() error               { return nil }

// fileMode converts st_mode of stat(2).
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{
		syscall.S_ISUID: fs.ModeSetuid, syscall.S_ISGID: fs.ModeSetgid, syscall.S_ISVTX: fs.ModeSticky,
	} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	kinds := map[uint32]fs.FileMode{
		syscall.S_IFDIR: fs.ModeDir, syscall.S_IFLNK: fs.ModeSymlink, syscall.S_IFIFO: fs.ModeNamedPipe,
		syscall.S_IFSOCK: fs.ModeSocket,
		syscall.S_IFBLK:  fs.ModeDevice, syscall.S_IFCHR: fs.ModeDevice | fs.ModeCharDevice,
	}
	return m | kinds[mode&syscall.S_IFMT]
}

// entry is the fs.DirEntry of a name in a directory.
type entry struct {
	r *Reader
	e dirent
}

func (e entry) Name() string      { return e.e.name }
func (e entry) IsDir() bool       { return e.e.kind == typeDir }
func (e entry) Type() fs.FileMode { return fileMode((&node{kind: e.e.kind}).mode()).Type() }
func (e entry) String() string    { return fs.FormatDirEntry(e) }

func (e entry) Info() (fs.FileInfo, error) {
	n, err := e.r.child(e.e)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: e.e.name, Err: err}
	}
	return newInfo(e.e.name, n), nil
}

// openDir is an open directory.
type openDir struct {
	info
	r    *Reader
	n    *node
	path string
	at   int // entries that were read
}

func (f *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.path, Err: syscall.EISDIR}
}

func (f *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	list, err := f.r.list(f.n, f.at, max(n, 0))
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: f.path, Err: err}
	}
	if f.at += len(list); n > 0 && len(list) == 0 {
		return nil, io.EOF
	}
	entries := make([]fs.DirEntry, len(list))
	for i, e := range list {
		entries[i] = entry{f.r, e}
	}
	return entries, nil
}

// openFile is an open file of any other kind; only a regular one can be read.
type openFile struct {
	info
	data
}

func (f *openFile) Read(p []byte) (int, error) {
	if !f.mode.IsRegular() {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	n, err := f.data.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &fs.PathError{Op: "read", Path: f.name, Err: err}
	}
	return n, err
}

// Seek implements io.Seeker for a regular file. To seek takes time in proportion to the number of blocks
// between the two places, or from the start if it goes back; it reads none of them.
func (f *openFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += int64(f.done) - int64(len(f.rest))
	case io.SeekEnd:
		offset += f.size
	}
	if !f.mode.IsRegular() || offset < 0 || offset > f.size {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: fs.ErrInvalid}
	}
	if err := f.seek(uint64(offset)); err != nil {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: err}
	}
	return offset, nil
}

// Close lets the next file have the buffer.
func (f *openFile) Close() error {
	if f.buf != nil {
		f.r.spare, f.buf, f.rest = f.buf[:0], nil, nil
	}
	f.done = f.n.size
	return nil
}

// data reads the data of a regular file.
type data struct {
	r     *Reader
	n     *node
	words cursor
	at    uint64 // bytes of the image that were read
	done  uint64 // bytes of the file up to the end of rest
	rest  []byte // of buf, which is not read yet
	buf   []byte
	cache *BlockCache // nil for none
}

func (d *data) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		if d.done == d.n.size {
			return 0, io.EOF
		}
		if err := d.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// seek goes to an offset, which is not behind the end.
func (d *data) seek(offset uint64) error {
	if start := d.done - uint64(len(d.buf)); len(d.buf) > 0 && offset >= start && offset < d.done {
		d.rest = d.buf[offset-start:]
		return nil
	}
	if offset < d.done {
		d.words, d.at, d.done = d.n.blocks, 0, 0
	}
	d.buf, d.rest = d.buf[:0], nil
	blockSize := uint64(d.r.sb.BlockSize)
	for d.done+blockSize <= offset && d.done/blockSize < d.n.blockCount(blockSize) {
		var word [4]byte
		if err := d.words.read(word[:]); err != nil {
			return err
		}
		d.at += uint64(binary.LittleEndian.Uint32(word[:]) &^ uncompressedBlock)
		d.done += min(blockSize, d.n.size-d.done)
	}
	if d.done >= offset {
		return nil
	}
	skip := offset - d.done
	if err := d.fill(); err != nil {
		return err
	}
	d.rest = d.buf[skip:]
	return nil
}

// fill reads the next block.
func (d *data) fill() error {
	if d.buf == nil {
		d.buf, d.r.spare = d.r.spare, nil
	}
	blockSize := uint64(d.r.sb.BlockSize)
	size := min(blockSize, d.n.size-d.done)
	if d.done/blockSize == d.n.blockCount(blockSize) {
		raw, err := d.r.fragmentBlock(d.n.fragment)
		if err != nil {
			return err
		}
		if uint64(d.n.offset)+size > uint64(len(raw)) {
			return damaged("inode %d ends after its fragment block of %d bytes", d.n.Number, len(raw))
		}
		d.buf = append(d.buf[:0], raw[d.n.offset:][:size]...)
	} else {
		var word uint32
		if err := d.words.decode(&word); err != nil {
			return err
		}
		raw, err := d.r.block(d.buf, d.n.start+d.at, word, int(size))
		if err != nil {
			return err
		}
		if uint64(len(raw)) != size {
			return damaged("a block of inode %d holds %d bytes, not %d", d.n.Number, len(raw), size)
		}
		d.buf, d.at = raw, d.at+uint64(word&^uncompressedBlock)
		d.remember(word)
	}
	d.rest, d.done = d.buf, d.done+size
	return nil
}

// fragmentBlock reads a fragment block. The result is valid until the next call.
func (r *Reader) fragmentBlock(number uint32) ([]byte, error) {
	if number == r.fragmentNumber {
		return r.fragment, nil
	}
	f, err := r.fragmentEntry(number)
	if err != nil {
		return nil, err
	}
	r.fragmentNumber = noFragment // r.fragment is overwritten
	if r.fragment, err = r.block(r.fragment, f.Start, f.Word, int(r.sb.BlockSize)); err != nil {
		return nil, err
	}
	r.fragmentNumber = number
	return r.fragment, nil
}

// block reads a block into the capacity of dst. A block of zeros has the length zeros.
func (r *Reader) block(dst []byte, at uint64, word uint32, zeros int) ([]byte, error) {
	blockSize, size := int(r.sb.BlockSize), int(word&^uncompressedBlock)
	if cap(dst) < blockSize {
		dst = make([]byte, 0, blockSize)
	}
	if word == 0 {
		dst = dst[:zeros]
		clear(dst)
		return dst, nil
	}
	if size == 0 || size > blockSize || at < superblockSize || at > r.sb.InodeTable {
		return nil, damaged("a block of %d bytes at %d", size, at)
	}
	if word&uncompressedBlock != 0 {
		return dst[:size], r.readAt(dst[:size], at)
	}
	if err := r.readAt(r.packed[:size], at); err != nil {
		return nil, err
	}
	raw, err := r.inflater.inflate(dst[:0:blockSize], r.packed[:size])
	if err != nil {
		return nil, damaged("a block at %d: %w", at, err)
	}
	return raw, nil
}
