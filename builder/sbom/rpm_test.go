package sbom

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
)

// rpmDatabase is a database that rpm has written, with 120 packages, one with an epoch.
func rpmDatabase(t *testing.T) (dir string) {
	t.Helper()
	for _, program := range []string{"rpm", "rpmbuild"} {
		if _, err := exec.LookPath(program); err != nil {
			fixtures.Skip(t, "%v; `make deps` installs it", err)
		}
	}
	dir = t.TempDir()
	var spec strings.Builder
	spec.WriteString("Name: first\nVersion: 1.0\nRelease: 3.el9\nSummary: s\nLicense: MIT\nBuildArch: noarch\n" +
		"%description\nd\n%files\n")
	for i := range 119 {
		epoch := ""
		if i == 7 {
			epoch = "Epoch: 2\n"
		}
		// A long description takes overflow pages.
		fmt.Fprintf(&spec, "%%package -n part%d\n%sSummary: s\n%%description -n part%d\n%s\n%%files -n part%d\n", i, epoch, i,
			strings.Repeat("words ", 10*i), i)
	}
	name := filepath.Join(dir, "first.spec")
	if err := os.WriteFile(name, []byte(spec.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, "rpmbuild", "-bb", "--define", "_topdir "+dir, name)
	built, err := filepath.Glob(filepath.Join(dir, "RPMS/noarch/*.rpm"))
	if err != nil || len(built) != 120 {
		t.Fatalf("got %d packages, %v, want 120", len(built), err)
	}
	run(t, "rpm", append([]string{"--dbpath", filepath.Join(dir, "db"), "--justdb", "--nodeps", "--nosignature", "-i"},
		built...)...)
	return filepath.Join(dir, "db")
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// rpm lists the same packages as readRPM, and no change of a byte makes readRPM panic or go on for ever.
func TestRPM(t *testing.T) {
	dir := rpmDatabase(t)
	content, err := os.ReadFile(filepath.Join(dir, "rpmdb.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(run(t, "rpm", "--dbpath", dir, "-qa", "--qf",
		"%{NAME}|%{VERSION}-%{RELEASE}|%{ARCH}|%{SOURCERPM}|%|EPOCH?{%{EPOCH}}|\n"))
	slices.Sort(want)
	if len(want) != 120 {
		t.Fatalf("got %d packages of rpm, want 120", len(want))
	}
	headers := headersOf(t, content)
	for backend, content := range map[string][]byte{
		"sqlite": content, "ndb": ndbOf(headers), "bdb": bdbOf(binary.LittleEndian, headers),
		"bdb of s390x": bdbOf(binary.BigEndian, headers),
	} {
		t.Run(backend, func(t *testing.T) {
			if got := listRPM(t, content); !slices.Equal(got, want) {
				t.Errorf("got %d packages, want %d as rpm:\n%v\n%v", len(got), len(want), got, want)
			}
			for at := 0; at < len(content); at += 1 + at/50 {
				for _, flip := range []byte{1, 0x80, 0xff} {
					content[at] ^= flip
					_ = readRPM(content, Package.check)
					content[at] ^= flip
				}
				_ = readRPM(content[:at], Package.check)
			}
		})
	}
}

func headersOf(t *testing.T, content []byte) (headers [][]byte) {
	t.Helper()
	for header, err := range rpmHeaders(content) {
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, slices.Clone(header))
	}
	return headers
}

// The library that other tools use lists the same packages of whole databases. Of this damaged one it reads a page
// for ever, which is why pinbox reads databases of rpm itself.
func TestLibraryOfRPM(t *testing.T) {
	peer := fixtures.Peer(t, "rpmdb")
	content, err := os.ReadFile(filepath.Join(rpmDatabase(t), "rpmdb.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	headers := headersOf(t, content)
	bdb := bdbOf(binary.LittleEndian, headers)
	for backend, content := range map[string][]byte{"rpmdb.sqlite": content, "Packages.db": ndbOf(headers), "Packages": bdb} {
		t.Run(backend, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), backend)
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			theirs := strings.Fields(run(t, peer, name))
			slices.Sort(theirs)
			if got := listRPM(t, content); !slices.Equal(got, theirs) {
				t.Errorf("got %d packages, want %d as the library:\n%v\n%v", len(got), len(theirs), got, theirs)
			}
		})
	}
	for page := bdb; len(page) > 0; page = page[4096:] {
		if page[25] == 7 { // an overflow page
			page[25] = 9
		}
	}
	name := filepath.Join(t.TempDir(), "Packages")
	if err := os.WriteFile(name, bdb, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, peer, name).CombinedOutput(); ctx.Err() == nil {
		t.Errorf("the library: got %v, %.300s, want that it does not end", err, out)
	}
	if err := readRPM(bdb, Package.check); !errors.Is(err, errRPM) {
		t.Errorf("got %v, want %v", err, errRPM)
	}
}

// ndbOf writes a database as SUSE's rpm does, which Debian's rpm has no backend for.
func ndbOf(headers [][]byte) []byte {
	const page = 4096
	content := append([]byte("RpmP"), make([]byte, page-4)...)
	binary.LittleEndian.PutUint32(content[12:], 1)
	for at := 32; at < page; at += 16 {
		copy(content[at:], "Slot")
	}
	for i, header := range headers {
		slot := content[32+16*i:]
		binary.LittleEndian.PutUint32(slot[4:], uint32(i+1))
		binary.LittleEndian.PutUint32(slot[8:], uint32(len(content)/16))
		blob := append([]byte("BlbS"), make([]byte, 12)...)
		binary.LittleEndian.PutUint32(blob[4:], uint32(i+1))
		binary.LittleEndian.PutUint32(blob[12:], uint32(len(header)))
		blob = append(blob, header...)
		content = append(content, blob...)
		content = append(content, make([]byte, 16-len(content)%16)...)
	}
	return content
}

// bdbOf writes a database as Red Hat's rpm did before 4.16: a page of metadata, and for each package a page of
// a hash with a key and a value, which has pages of its own.
func bdbOf(order binary.ByteOrder, headers [][]byte) []byte {
	const size, head = 4096, 26
	var content []byte
	page := func(kind byte) []byte {
		content = append(content, make([]byte, size)...)
		p := content[len(content)-size:]
		p[25] = kind
		return p
	}
	meta := page(8)
	order.PutUint32(meta[12:], bdbMagic)
	order.PutUint32(meta[20:], size)
	for _, header := range headers {
		hash := page(13)
		order.PutUint16(hash[20:], 2)
		order.PutUint16(hash[head+2:], 2000)
		hash[2000] = 3
		order.PutUint32(hash[2004:], uint32(len(content)/size))
		for rest := header; len(rest) > 0; {
			overflow := page(7)
			n := copy(overflow[head:], rest)
			order.PutUint16(overflow[22:], uint16(n))
			if rest = rest[n:]; len(rest) > 0 {
				order.PutUint32(overflow[16:], uint32(len(content)/size))
			}
		}
	}
	order.PutUint32(content[32:], uint32(len(content)/size-1)) // the last page
	return content
}

func listRPM(t *testing.T, content []byte) (all []string) {
	t.Helper()
	err := readRPM(content, func(p Package) error {
		all = append(all, strings.Join([]string{p.Name, p.Version, p.Arch, p.Source, p.Epoch}, "|"))
		return p.check()
	})
	if err != nil {
		t.Error(err)
	}
	slices.Sort(all)
	return all
}
