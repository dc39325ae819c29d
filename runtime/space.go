package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrSpace is too little space for the images.
var ErrSpace = fault.New(fault.Space, "too little space",
	"free space, or remove images from the sets; `pinbox-node detach` removes stores that are not used; --reserve "+
		"sets how much stays free")

// Reserve is the space that pulls leave free: the lesser of a number of bytes and a share of the
// file system in percent. A value of 0 does not count; if both are 0, there is no reserve.
type Reserve struct {
	Bytes   int64
	Percent int
}

// DefaultReserve is the 16 GiB of the Machine Config Operator, but at most a tenth of the disk.
var DefaultReserve = Reserve{16 << 30, 10}

// ParseReserve reads "16Gi", "10%", or both with a comma; "0" is no reserve.
func ParseReserve(s string) (Reserve, error) {
	var r Reserve
	parts := strings.Split(s, ",")
	if len(parts) > 2 || len(parts) == 2 && strings.HasSuffix(parts[0], "%") == strings.HasSuffix(parts[1], "%") {
		return Reserve{}, fmt.Errorf("reserve %q: it is a number of bytes, a share, or one of each", s)
	}
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if percent, ok := strings.CutSuffix(part, "%"); ok {
			n, err := strconv.Atoi(percent)
			if err != nil || n < 0 || n > 99 {
				return Reserve{}, fmt.Errorf("reserve %q: %s is not a share of a disk, 0%% to 99%%", s, part)
			}
			r.Percent = n
			continue
		}
		n, err := bytesize.Parse(part)
		if err != nil {
			const form = "16Gi, 10% or 16Gi,10%, with the units Ki, Mi, Gi and Ti"
			return Reserve{}, fmt.Errorf("reserve %q: it has the form %s", s, form)
		}
		r.Bytes = n
	}
	return r, nil
}

// MarshalText returns what UnmarshalText reads.
func (r Reserve) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what ParseReserve reads.
func (r *Reserve) UnmarshalText(text []byte) (err error) {
	*r, err = ParseReserve(string(text))
	return err
}

// String returns what ParseReserve reads.
func (r Reserve) String() string {
	parts := []string{strconv.FormatInt(r.Bytes, 10)}
	if r.Bytes > 0 && r.Bytes%(1<<30) == 0 {
		parts[0] = strconv.FormatInt(r.Bytes>>30, 10) + "Gi"
	}
	if r.Percent > 0 {
		parts = append(parts, strconv.Itoa(r.Percent)+"%")
	}
	return strings.Join(parts, ",")
}

// of returns the reserve of a file system, in bytes.
func (r Reserve) of(s disk.Space) int64 {
	share := s.Total * int64(r.Percent) / 100
	if r.Bytes == 0 || r.Percent > 0 && share < r.Bytes {
		return share
	}
	return r.Bytes
}

// Limits of the space that pulls may take.
type Limits struct {
	// Node is the name of the node in messages.
	Node string
	// Task is what takes the space, in messages; "" means pulls.
	Task    string
	Reserve Reserve
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
	if reserve := l.Reserve.of(s); s.Free-bytes < reserve {
		return spaceError("The store needs %s in %s; %s are free, %s are kept in reserve.",
			bytesize.Format(bytes), s.Path, bytesize.Format(s.Free), bytesize.Format(reserve))
	}
	return nil
}

// check returns an ErrSpace, with numbers, if a claim does not fit.
func (l Limits) check(c Claim) error {
	s, reserve := c.Space, l.Reserve.of(c.Space)
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
