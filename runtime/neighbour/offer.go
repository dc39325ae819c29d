package neighbour

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
)

// Names in the folder of the stores of a node.
const (
	incomingDir = "incoming"
	// keptDir has thin deltas that were attached: see Keep.
	keptDir = "neighbours"
	// noteName begins with a dot, as the name of no store does.
	noteName = ".fetching"
)

// part is the suffix of a file that is being fetched: see package fetch. Its bytes are the first ones of the store.
const part = ".part"

// Source says what a node that fetches a file has to do with the source.
type Source string

// The values of Source. A node that intends to read from the source does so a moment later, unless another one intends
// the same.
const (
	NoSource Source = ""
	Intends  Source = "intends"
	Reads    Source = "reads"
)

// note is what the process that fetches a file tells the server, which is another process.
type note struct {
	// File is the name of the file in the folder of the note, and Size what it will have, in bytes.
	File   string `json:"file"`
	Size   int64  `json:"size"`
	Source Source `json:"source,omitempty"`
}

// beat is how often a note is renewed, and alive how long it counts: the process may have been killed.
const (
	beat  = time.Second
	alive = 5 * time.Second
)

// Announcement is the note of a file that is being fetched.
type Announcement struct {
	path string
	note note
	end  chan struct{}
	done chan struct{}
}

// Announce tells the server of this node that a file is fetched into a folder below incoming. The caller closes it.
func Announce(dir, file string, size int64) (*Announcement, error) {
	a := &Announcement{
		path: filepath.Join(dir, noteName), note: note{File: file, Size: size},
		end: make(chan struct{}), done: make(chan struct{}),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := a.write(); err != nil {
		return nil, err
	}
	go a.renew()
	return a, nil
}

// Set announces what this node has to do with the source.
func (a *Announcement) Set(s Source) error {
	if a == nil || a.note.Source == s {
		return nil
	}
	a.note.Source = s
	return a.write()
}

func (a *Announcement) write() error {
	text, err := json.Marshal(a.note)
	if err == nil {
		_, err = atomicfile.Write(a.path, text, 0o600)
	}
	return err
}

func (a *Announcement) renew() {
	defer close(a.done)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-a.end:
			return
		case now := <-ticker.C:
			_ = os.Chtimes(a.path, now, now) // without it, the note does not count
		}
	}
}

// Close ends the announcement. What is there of the file stays, and so does the note: it names the file.
func (a *Announcement) Close() {
	if a != nil {
		close(a.end)
		<-a.done
	}
}

// offered is a file that a node offers.
type offered struct {
	path     string
	size     int64 // of the whole file
	have     int64 // bytes at its beginning
	complete bool
	source   Source
}

// errNone means that a node has nothing of a file.
var errNone = errors.New("the node has no such file")

// find finds a file in the folder of the stores by its digest: a store that was attached, a thin delta that was kept,
// or what is being fetched. No name of a request becomes part of a path, only the digits of a digest.
func find(dir string, id digest.Digest) (offered, error) {
	for _, path := range []string{
		filepath.Join(dir, id.Encoded()+layout.AttachedSuffix), filepath.Join(dir, keptDir, id.Encoded()),
	} {
		if fi, err := os.Lstat(path); err == nil && fi.Mode().IsRegular() {
			return offered{path: path, size: fi.Size(), have: fi.Size(), complete: true}, nil
		}
	}
	folder := filepath.Join(dir, incomingDir, id.Encoded())
	fi, err := os.Stat(filepath.Join(folder, noteName))
	if err != nil {
		return offered{}, none(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, noteName))
	if err != nil {
		return offered{}, none(err)
	}
	var n note
	if err := json.Unmarshal(text, &n); err != nil || n.File != filepath.Base(n.File) {
		return offered{}, fmt.Errorf("%s: %w", folder, errNone)
	}
	o := offered{path: filepath.Join(folder, n.File), size: n.Size, source: n.Source}
	// The file has its name once it has the digest.
	if fi, err := os.Lstat(o.path); err == nil && fi.Mode().IsRegular() && fi.Size() == n.Size {
		o.have, o.complete, o.source = n.Size, true, NoSource
		return o, nil
	}
	if time.Since(fi.ModTime()).Abs() > alive {
		return offered{}, fmt.Errorf("%s: %w: nobody fetches it", folder, errNone)
	}
	o.path += part
	if fi, err := os.Lstat(o.path); err == nil && fi.Mode().IsRegular() {
		o.have = min(fi.Size(), n.Size)
	}
	return o, nil
}

func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errNone
	}
	return err
}
