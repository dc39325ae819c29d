package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrSpace is too little space for the images.
var ErrSpace = fault.New(fault.Space, "too little space",
	"free space, or remove images from the sets; `pinbox-node detach` removes stores that are not used; "+
		"the setting reserve says how much stays free")

// DefaultReserve is the 16 GiB of the Machine Config Operator, but at most a tenth of the disk.
var DefaultReserve = bytesize.Reserve{Bytes: 16 << 30, Percent: 10}

// Limits of the space that pulls may take.
type Limits struct {
	// Node is the name of the node in messages.
	Node string
	// Task is what takes the space, in messages; "" means pulls.
	Task    string
	Reserve bytesize.Reserve
	// GCPercent is the used share of the file system at which the kubelet starts to remove
	// images, 0 for never, and GCFile the file that sets it.
	GCPercent int
	GCFile    string
}

// Claim on a file system.
type Claim struct {
	Space         disk.Space
	Bytes, Inodes int64
	// Store means that the images are unpacked there, so that the kubelet watches it.
	Store     bool
	Estimated bool
}

// spaceCheck compares what pulls need with what is free.
type spaceCheck struct {
	disk      Disk
	graphRoot string
	limits    Limits
	parallel  int
}

// check returns an ErrSpace, with numbers, if there is too little space for these pulls.
func (s spaceCheck) check(pulls []Pull) error {
	all, err := s.claims(pulls)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, s.limits.check(c))
	}
	return errors.Join(errs...)
}

// claims returns the claims of these pulls on the file systems of the node.
func (s spaceCheck) claims(pulls []Pull) ([]Claim, error) {
	if len(pulls) == 0 {
		return nil, nil // images can be unpinned on a full disk
	}
	store, staging, err := s.disk.Space(s.graphRoot)
	if err != nil {
		return nil, err
	}
	need, staged := totalNeed(pulls, s.parallel)
	return claims(need, staged, store, staging), nil
}

// Need is disk space that pulls need.
type Need struct {
	// Fetch is the bytes of the blobs to fetch.
	Fetch int64
	// Unpacked bytes and inodes of the layers that the node lacks.
	Unpacked, Inodes int64
	// Estimated means that no lock has the sizes.
	Estimated bool
}

func (n *Need) add(more Need) {
	n.Fetch += more.Fetch
	n.Unpacked += more.Unpacked
	n.Inodes += more.Inodes
	n.Estimated = n.Estimated || more.Estimated
}

// Estimates for layers that no lock has: the Machine Config Operator's factor
// (pkg/daemon/pinned_image_set.go), and the mean size of a file in a base image.
const (
	unpackedPerFetched = 2
	bytesPerInode      = 32 << 10
)

func need(layers []*pinset.LockedLayer, fetch int64) Need {
	n := Need{Fetch: fetch}
	for _, l := range layers {
		one := Need{Unpacked: l.UnpackedSize, Inodes: l.Inodes}
		if l.UnpackedSize == 0 {
			one.Unpacked, one.Estimated = unpackedPerFetched*l.Size, true
			one.Inodes = one.Unpacked / bytesPerInode
		}
		n.add(one)
	}
	return n
}

// totalNeed returns what pulling these images needs. staged are the bytes of the blobs of the
// largest ones, as many as are pulled in parallel: blobs are staged until they are unpacked.
func totalNeed(all []Pull, parallel int) (n Need, staged int64) {
	var fetches []int64
	for _, p := range all {
		n.add(p.Need)
		fetches = append(fetches, p.Fetch)
	}
	slices.Sort(fetches)
	for _, f := range fetches[max(0, len(fetches)-parallel):] {
		staged += f
	}
	return n, staged
}

// claims divides a need between the file systems of the store and of the staging folder, which may
// be the same.
func claims(n Need, staged int64, store, staging disk.Space) []Claim {
	// Subvolumes of one file system have different devices.
	if store.Device == staging.Device || store.Total == staging.Total && store.Free == staging.Free {
		return []Claim{{store, n.Unpacked + staged, n.Inodes, true, n.Estimated}}
	}
	return []Claim{{store, n.Unpacked, n.Inodes, true, n.Estimated}, {staging, staged, 0, false, false}}
}

// CheckFile returns an ErrSpace, with numbers, if a file of so many bytes would leave less than the
// reserve.
func (l Limits) CheckFile(s disk.Space, bytes int64) error {
	if reserve := l.Reserve.Of(s.Total); s.Free-bytes < reserve {
		return spaceError("The store needs %s in %s; %s are free, %s are kept in reserve.",
			bytesize.Format(bytes), s.Path, bytesize.Format(s.Free), bytesize.Format(reserve))
	}
	return nil
}

// check returns an ErrSpace, with numbers, if a claim does not fit.
func (l Limits) check(c Claim) error {
	s, reserve := c.Space, l.Reserve.Of(c.Space.Total)
	about := ""
	if c.Estimated {
		about = "about "
	}
	start := fmt.Sprintf("%s on %s needs %s", cmp.Or(l.Task, "Pulling the images"), l.Node, about)
	switch free := s.Free - c.Bytes; {
	case free < reserve:
		return spaceError("%s%s in %s; %s are free, %s are kept in reserve.",
			start, bytesize.Format(c.Bytes), s.Path, bytesize.Format(s.Free), bytesize.Format(reserve))
	case c.Store && l.GCPercent > 0 && l.GCPercent < 100 && s.Total > 0 && 100-free*100/s.Total >= int64(l.GCPercent):
		by := ""
		if l.GCFile != "" {
			by = " (" + l.GCFile + ")"
		}
		return spaceError("%s%s in %s; %s of %s are free, and the kubelet removes images once %d %% are used%s.",
			start, bytesize.Format(c.Bytes), s.Path, bytesize.Format(s.Free), bytesize.Format(s.Total), l.GCPercent, by)
	}
	if s.Inodes == 0 || s.Total == 0 { // no limit
		return nil
	}
	kept := int64(float64(s.Inodes) * float64(reserve) / float64(s.Total))
	if s.FreeInodes-c.Inodes < kept {
		return spaceError("%s%d inodes in %s; %d are free, %d are kept in reserve.",
			start, c.Inodes, s.Path, s.FreeInodes, kept)
	}
	return nil
}

// tooLittle is an ErrSpace with its own text.
type tooLittle string

func (e tooLittle) Error() string { return string(e) }
func (tooLittle) Unwrap() error   { return ErrSpace }

func spaceError(format string, args ...any) error { return tooLittle(fmt.Sprintf(format, args...)) }
