package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Whichever operation of the disk fails, there is the old file or the new one, and the caller knows which. The next
// writer succeeds. Only a disk that removes nothing keeps a temporary file.
func TestFaultAtEachOperation(t *testing.T) {
	large := func(create func(path string) (*atomicfile.File, error)) func(path, content string) error {
		return func(path, content string) error {
			f, err := create(path)
			if err != nil {
				return err
			}
			defer f.Abort()
			for part := content; part != ""; part = part[min(len(part), 4096):] {
				if _, err := f.Write([]byte(part[:min(len(part), 4096)])); err != nil {
					return err
				}
			}
			return f.Commit()
		}
	}
	for name, write := range map[string]func(path, content string) error{
		"Write": func(path, content string) error {
			_, err := atomicfile.Write(path, []byte(content), 0o644)
			return err
		},
		"Create":      large(func(path string) (*atomicfile.File, error) { return atomicfile.Create(path, 0o644) }),
		"CreateLarge": large(func(path string) (*atomicfile.File, error) { return atomicfile.CreateLarge(path, 0o644) }),
	} {
		t.Run(name, func(t *testing.T) {
			disk := fixtures.NewFaultyDisk(t)
			path := disk.Path("file")
			if err := write(path, oldAndNew[0]); err != nil {
				t.Fatal(err)
			}
			disk.WithFaults(func() error { return write(path, oldAndNew[1]) },
				func(f fixtures.Fault, _ string, err error) {
					checkFault(t, path, f, err)
					if err := write(path, oldAndNew[1]); err != nil {
						t.Errorf("the next one: got %v", err)
					}
					checkContent(t, path, oldAndNew[1])
					if err := write(path, oldAndNew[0]); err != nil {
						t.Fatal(err)
					}
				})
		})
	}
}

// checkFault checks what a fault has left, and removes what could not be removed then.
func checkFault(t *testing.T, path string, f fixtures.Fault, err error) {
	t.Helper()
	content, readErr := os.ReadFile(path)
	isNew := string(content) == oldAndNew[1]
	if readErr != nil || !isNew && (err == nil || string(content) != oldAndNew[0]) {
		t.Errorf("got %d bytes, %.8q, %v after the error %v, want the old file or the new one", len(content), content,
			readErr, err)
	}
	if f.Number > 0 && !errors.Is(err, f.Errno) {
		t.Errorf("got %v, want %v", err, f.Errno)
	}
	entries, readErr := os.ReadDir(filepath.Dir(path))
	removes := !f.On || f.Errno != syscall.EIO
	if readErr != nil || removes && len(entries) != 1 {
		t.Errorf("got files %v, %v, want one", entries, readErr)
	}
	for _, e := range entries {
		if name := filepath.Join(filepath.Dir(path), e.Name()); name != path {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
		}
	}
}
