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

// Limits for sums in bytes. MaxSums, on a node, is sufficient for 5,000 files. MaxFolderSums is for
// the build host: the store of an appliance can be a folder, with a line for each file.
const (
	MaxSums       = 1 << 20
	MaxFolderSums = 1 << 30
)

const (
	maxPath = 4096           // PATH_MAX of limits.h
	maxLine = 2*maxPath + 70 // a sum and a path, each byte of it escaped
)

var (
	escape   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// StoreSums is what the signature of a store is over: its sum in one line, which is the output of sha256sum(1) for
// standard input, whatever the name of the file.
func StoreSums(sum string) []byte { return Sums{"-": sum}.Encode() }

// ReadSums reads the output of sha256sum(1), at most max bytes. A path that is absolute, not clean,
// outside of the folder or repeated is an error.
func ReadSums(r io.Reader, max int64) (Sums, error) {
	sums := Sums{}
	err := eachSum(r, max, func(name, sum string) (bool, error) {
		if _, there := sums[name]; there {
			return false, fmt.Errorf("path %q: repeated", name)
		}
		sums[name] = sum
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return sums, nil
}

// FindSum returns the digest of a file in the output of sha256sum(1), "" if it is not listed. It reads
// up to the line of the file, at most 1 MiB, and holds one line in memory: the medium of the file may
// be hostile.
func FindSum(r io.Reader, name string) (found digest.Digest, err error) {
	err = eachSum(r, MaxSums, func(listed, sum string) (bool, error) {
		if listed == name {
			found = digest.NewDigestFromEncoded(digest.SHA256, sum)
		}
		return listed != name, nil
	})
	return found, err
}

// eachSum calls take for each line, until it returns false.
func eachSum(r io.Reader, max int64, take func(name, sum string) (bool, error)) error {
	limited := &io.LimitedReader{R: r, N: max + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan() && limited.N > 0; n++ {
		name, sum, err := parseSum(lines.Text())
		more := false
		if err == nil {
			more, err = take(name, sum)
		}
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrSums, n, err)
		}
		if !more {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrSums, err)
	}
	if limited.N <= 0 {
		return fmt.Errorf("%w: more than %d bytes", ErrSums, max)
	}
	return nil
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
	if len(name) > maxPath {
		return "", "", fmt.Errorf("a path of %d bytes, which no file has", len(name))
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
