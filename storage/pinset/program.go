package pinset

import (
	"debug/buildinfo"
	"io"
	"os"
	"strings"

	"github.com/coreos/go-semver/semver"
	"github.com/opencontainers/go-digest"
)

// Program is the pinbox-node of a release; the zero value is none.
type Program struct {
	Digest digest.Digest `json:"digest"`
	// Version that the Go toolchain stamped into it, such as v1.2.3; "" if it stamped none.
	Version string `json:"version,omitempty"`
}

// ReadProgram returns the SHA-256 of a program, and its version: what `go version -m` shows of a tag or a commit.
func ReadProgram(f *os.File) (p Program, err error) {
	fi, err := f.Stat()
	if err != nil {
		return p, err
	}
	p.Digest, err = digest.FromReader(io.NewSectionReader(f, 0, fi.Size()))
	if info, buildErr := buildinfo.Read(f); buildErr == nil && strings.HasPrefix(info.Main.Version, "v") {
		p.Version = info.Main.Version // else it is (devel)
	}
	return p, err
}

// Check returns an error for a digest or a version that no build writes.
func (p Program) Check() error {
	if err := CheckDigest("digest", p.Digest); err != nil {
		return err
	}
	return checkPrintable("version", p.Version)
}

// OlderThan reports whether both programs have a version, and that of p is the lower one. Without, the order is
// that of their releases.
func (p Program) OlderThan(q Program) bool {
	a, aErr := semver.NewVersion(strings.TrimPrefix(p.Version, "v"))
	b, bErr := semver.NewVersion(strings.TrimPrefix(q.Version, "v"))
	return aErr == nil && bErr == nil && a.LessThan(*b)
}
