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

// ErrSums says that a file is not what sha256sum(1) writes.
var ErrSums = errors.New("not the output of sha256sum")

// Sums are the SHA-256 of files, in hexadecimal, by their paths: SHA256SUMS.
type Sums map[string]string

// MaxSums is enough for the sums of 100,000 files beside a store. Those of a store that is a
// folder, which has a line for each file in it, are larger.
const MaxSums = 16 << 20

const maxLine = 2*4096 + 70 // PATH_MAX of limits.h, each byte escaped, behind a sum

var (
	escape   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
	unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r")
)

// ReadSums reads lines of sha256sum(1), at most max bytes of them. Paths are relative, as short
// as they can be, and below the folder that has the sums; none is there twice.
func ReadSums(r io.Reader, max int64) (Sums, error) {
	sums := Sums{}
	limited := &io.LimitedReader{R: r, N: max + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan() && limited.N > 0; n++ {
		name, sum, err := parseSum(lines.Text())
		if _, there := sums[name]; err == nil && there {
			err = fmt.Errorf("%q is there twice", name)
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

// SumOf finds the digest of a file in what sha256sum(1) has written, "" if it is not there.
func SumOf(text []byte, name string) (digest.Digest, error) {
	sums, err := ReadSums(bytes.NewReader(text), MaxSums)
	if sum := sums[name]; sum != "" {
		return digest.NewDigestFromEncoded(digest.SHA256, sum), nil
	}
	return "", err
}

// parseSum reads a line, which starts with a backslash if the name has escapes.
func parseSum(line string) (name, sum string, err error) {
	rest, escaped := strings.CutPrefix(line, `\`)
	sum, name, found := strings.Cut(rest, "  ")
	if !found || !pinset.ValidID(sum) {
		return "", "", errors.New("no SHA-256, two blanks and a path")
	}
	if escaped {
		name = unescape.Replace(name)
	}
	if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
		return "", "", fmt.Errorf("path %q", name)
	}
	return name, sum, nil
}

// Encode gives the sums as sha256sum(1) writes them, sorted by their paths.
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
