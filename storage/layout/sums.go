package layout

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrSums is the error for a file that sha256sum(1) did not write.
var ErrSums = errors.New("not the output of sha256sum")

// Sums are the SHA-256 digests of files, in hexadecimal, by their paths: SHA256SUMS.
type Sums map[string]string

// Limits for sums in bytes. MaxSums, on a node, is sufficient for 100,000 files. MaxFolderSums is for
// the build host: the store of an appliance can be a folder, with a line for each file.
const (
	MaxSums       = 16 << 20
	MaxFolderSums = 1 << 30
)

const maxLine = 2*4096 + 70 // a sum and PATH_MAX (limits.h) bytes, each escaped

var (
	escape   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// ReadSums reads the output of sha256sum(1), at most max bytes. A path that is absolute, not clean,
// outside of the folder or repeated is an error.
func ReadSums(r io.Reader, max int64) (Sums, error) {
	sums := Sums{}
	limited := &io.LimitedReader{R: r, N: max + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan() && limited.N > 0; n++ {
		name, sum, err := parseSum(lines.Text())
		if _, there := sums[name]; err == nil && there {
			err = fmt.Errorf("path %q: repeated", name)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrSums, n, err)
		}
		sums[name] = sum
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSums, err)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrSums, max)
	}
	return sums, nil
}

// SumOf returns the digest of a file in the output of sha256sum(1), "" if it is not listed.
func SumOf(text []byte, name string) (digest.Digest, error) {
	sums, err := ReadSums(bytes.NewReader(text), MaxSums)
	if sum := sums[name]; sum != "" {
		return digest.NewDigestFromEncoded(digest.SHA256, sum), nil
	}
	return "", err
}

// parseSum reads a line, which starts with a backslash if the path is escaped.
func parseSum(line string) (name, sum string, err error) {
	rest, escaped := strings.CutPrefix(line, `\`)
	sum, name, found := strings.Cut(rest, "  ")
	if !found || !pinset.ValidID(sum) {
		return "", "", errors.New("not a SHA-256, two spaces and a path")
	}
	if escaped {
		name = unescape.Replace(name)
	}
	if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
		return "", "", fmt.Errorf("path %q: not a clean path within the folder", name)
	}
	return name, sum, nil
}

// Encode returns the sums in the format of sha256sum(1), sorted by path.
func (s Sums) Encode() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s)) {
		escaped := escape.Replace(name)
		if escaped != name {
			b.WriteByte('\\')
		}
		fmt.Fprintf(&b, "%s  %s\n", s[name], escaped)
	}
	return b.Bytes()
}
