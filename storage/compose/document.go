package compose

import (
	"os"
	"sync"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Documents are manifests and configurations in a file without a name: those of 2,000 images with 50 layers each have
// 25 MB. The zero value and nil keep them in memory. It is for several goroutines.
type Documents struct {
	// Tmp is a folder for the file; "" for none.
	Tmp string

	mu   sync.Mutex
	file *os.File
	size int64
	err  error
}

// Document is a manifest or a configuration.
type Document struct {
	held []byte // nil if it is in the file
	in   *os.File
	at   int64
	size int
}

// Keep keeps a document. It stays in memory if the file cannot be written: see Err.
func (d *Documents) Keep(content []byte) Document {
	inMemory := Document{held: content}
	if d == nil || d.Tmp == "" || len(content) == 0 {
		return inMemory
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file == nil && d.err == nil {
		d.file, d.err = atomicfile.Unnamed(d.Tmp)
	}
	if d.err == nil {
		_, d.err = d.file.WriteAt(content, d.size)
	}
	if d.err != nil {
		return inMemory
	}
	kept := Document{in: d.file, at: d.size, size: len(content)}
	d.size += int64(len(content))
	return kept
}

// Err is why the file cannot be written. Then it may still have a name, and lie in what is being made.
func (d *Documents) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Close closes the file. The documents in it can be read no more.
func (d *Documents) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file != nil {
		_ = d.file.Close() // it is temporary
	}
}

// Size returns the size of the content in bytes.
func (d Document) Size() int {
	if d.in == nil {
		return len(d.held)
	}
	return d.size
}

// Read returns the content.
func (d Document) Read() ([]byte, error) {
	if d.in == nil {
		return d.held, nil
	}
	content := make([]byte, d.size)
	_, err := d.in.ReadAt(content, d.at)
	return content, err
}
