package thin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/fixtures/thinned"
	"github.com/pinbox/pinbox/storage/thin"
)

// interleaved is a release whose only layer has files of several folders in turn, of which the release changes each
// second one.
func interleaved(t testing.TB, files, n int) thinned.Chain {
	t.Helper()
	const dirs = 20
	var all []sample.Entry
	for d := range dirs {
		all = append(all, sample.Dir(fmt.Sprintf("d%d", d)))
	}
	for i := range files {
		content := fmt.Sprintf("file %d of release %d", i, n*(i%2))
		all = append(all, sample.File(fmt.Sprintf("d%d/a-name-as-files-have-%06d", i%dirs, i), content))
	}
	return thinned.Chain{stream(t, all...)}
}

// watched is a store that counts what is read of it, and calls ended before read number at.
type watched struct {
	*bytes.Reader
	reads, size *atomic.Int64
	at          int64
	ended       func()
}

func (w watched) ReadAt(p []byte, off int64) (int, error) {
	if w.reads.Add(1) == w.at {
		w.ended()
	}
	n, err := w.Reader.ReadAt(p, off)
	w.size.Add(int64(n))
	return n, err
}

// many is a maker of a thin delta of interleaved files.
type many struct {
	base, next []byte
	ids        []string
}

func makeMany(t testing.TB, files int) many {
	t.Helper()
	old := interleaved(t, files, 1)
	return many{store(t, nil, old), store(t, nil, interleaved(t, files, 2)), old.IDs()}
}

// run makes the delta, and reads it. It ends the context before read number at; 0 never.
func (m many) run(t testing.TB, at int64) (reads, size int64, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var count, bytesRead atomic.Int64
	named := func(name string, image []byte) thin.Store {
		w := watched{bytes.NewReader(image), &count, &bytesRead, at, cancel}
		return thin.Store{Name: name, File: w, Size: int64(len(image))}
	}
	bases := []thin.Store{named("base", m.base)}
	delta, _, err := thinned.Thin(ctx, thin.Maker{Store: named("next", m.next), Bases: bases, Sources: m.ids, Workers: 1})
	if err == nil {
		var r *thin.Reader
		if r, err = thin.Open(named("delta", delta), thin.Limits{}); err == nil {
			var s io.ReadCloser
			if s, err = r.Layer(ctx, r.Layers()[0].DiffID, bases, nil); err == nil {
				_, err = io.Copy(io.Discard, s)
				_ = s.Close()
			}
		}
	}
	return count.Load(), bytesRead.Load(), err
}

// To make and to read a thin delta of files of several folders in turn reads and allocates as much for each of many
// files as for each of few: a bug was to list the folder again for each file.
func TestFilesOfFoldersInTurn(t *testing.T) {
	costs := func(files int) (size, allocated int64) {
		m := makeMany(t, files)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, size, err := m.run(t, 0)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return size / int64(files), int64(after.Mallocs-before.Mallocs) / int64(files)
	}
	fewBytes, fewAllocs := costs(2_000)
	manyBytes, manyAllocs := costs(16_000)
	if manyBytes > 2*fewBytes || manyAllocs > 2*fewAllocs {
		t.Errorf("got %d bytes and %d allocations for each of 16,000 files, and %d and %d for each of 2,000", manyBytes,
			manyAllocs, fewBytes, fewAllocs)
	}
}

// Whenever the context ends, the work ends soon, with the error of the context and not with one of the stores.
func TestWorkEndsWithItsContext(t *testing.T) {
	m := makeMany(t, 2_000)
	all, _, err := m.run(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	const parts = 5
	for part := range int64(parts) {
		at := 1 + all*part/parts
		reads, _, err := m.run(t, at)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended before read %d of %d: got %v, want %v", at, all, err, context.Canceled)
		}
		if errors.Is(err, thin.ErrBase) || errors.Is(err, thin.ErrDamaged) {
			t.Errorf("ended before read %d of %d: got %v, which is no damage", at, all, err)
		}
		if more := reads - at; more > 100 {
			t.Errorf("ended before read %d of %d: got %d more, want the end", at, all, more)
		}
	}
}
