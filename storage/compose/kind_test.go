package compose

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures/sample"
)

// Every kind of entry, with what the tree gets of its header.
func TestKindsOfEntries(t *testing.T) {
	for name, test := range map[string]struct {
		header tar.Header
		body   string
		want   string
	}{
		"file":            {tar.Header{Typeflag: tar.TypeReg}, "body", "100751 4 bytes 0:0"},
		"contiguous file": {tar.Header{Typeflag: tar.TypeCont}, "body", "100751 4 bytes 0:0"},
		"folder":          {tar.Header{Typeflag: tar.TypeDir}, "", "40751 0:0"},
		"symbolic link":   {tar.Header{Typeflag: tar.TypeSymlink, Linkname: "x"}, "", "120777 0:0"},
		"characters":      {tar.Header{Typeflag: tar.TypeChar, Devmajor: 5, Devminor: 1}, "", "20751 5:1"},
		"characters 0:1":  {tar.Header{Typeflag: tar.TypeChar, Devminor: 1}, "", "20751 0:1"},
		"blocks":          {tar.Header{Typeflag: tar.TypeBlock, Devmajor: 8, Devminor: 3}, "", "60751 8:3"},
		"pipe":            {tar.Header{Typeflag: tar.TypeFifo}, "", "10751 0:0"},
	} {
		t.Run(name, func(t *testing.T) {
			h := test.header
			h.Name, h.Mode, h.Uid, h.Gid, h.ModTime = "a", 0o751, 7, 8, time.Unix(99, 0)
			r, _, err := unpack(t, tarOf(t, []sample.Entry{{Header: h, Body: test.body}}))
			if err != nil {
				t.Fatal(err)
			}
			i := r.tree.root.Entry("a")
			got := fmt.Sprintf("%o", i.Mode)
			if i.Content != nil {
				got += fmt.Sprintf(" %d bytes", i.Content.Size())
			}
			if got += fmt.Sprintf(" %d:%d", i.Major, i.Minor); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if i.UID != 7 || i.GID != 8 || i.ModTime != 99 {
				t.Errorf("got owner %d:%d and time %d, want 7:8 and 99", i.UID, i.GID, i.ModTime)
			}
		})
	}
}

func TestEntryOfAnUnknownKind(t *testing.T) {
	h := tar.Header{Name: "a", Typeflag: 'Z'}
	if _, _, err := unpack(t, tarOf(t, []sample.Entry{{Header: h}})); !errors.Is(err, ErrEntry) {
		t.Errorf("got %v, want %v", err, ErrEntry)
	}
}

// A header for all entries is not an entry.
func TestGlobalHeader(t *testing.T) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	h := tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}
	if err := errors.Join(w.WriteHeader(&h), w.Flush()); err != nil {
		t.Fatal(err)
	}
	layer.Write(tarOf(t, []sample.Entry{f("a", "x")}))
	r, _, err := unpack(t, layer.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a 1"}, describe(r.tree.root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What has the greatest length that the kernel permits.
func TestEntriesAtTheLimits(t *testing.T) {
	name := strings.Repeat("n", maxNameLen)
	chain := []sample.Entry{f("l0/x", "x")}
	for n := range maxLinks {
		chain = append(chain, s(fmt.Sprintf("l%d", n+1), fmt.Sprintf("l%d", n)))
	}
	for label, entries := range map[string][]sample.Entry{
		"name":              {f(name, "x")},
		"name of a folder":  {f(name+"/a", "x")},
		"path":              {f(strings.Repeat("d/", 2047)+"a", "x")},
		"target":            {s("a", strings.Repeat("x", maxTargetLen-1))},
		"name of attribute": {withXattr("user."+strings.Repeat("n", maxXattrName-5), "x")},
		"attribute":         {withXattr("user.a", strings.Repeat("x", maxXattrValue))},
		"symbolic links":    append(chain, f(fmt.Sprintf("l%d/y", maxLinks), "y")),
	} {
		t.Run(label, func(t *testing.T) {
			if _, _, err := unpack(t, tarOf(t, entries)); err != nil {
				t.Error(err)
			}
		})
	}
	chain = append(chain, s("last", fmt.Sprintf("l%d", maxLinks)), f("last/y", "y"))
	if _, _, err := unpack(t, tarOf(t, chain)); !errors.Is(err, ErrEntry) {
		t.Errorf("a path of %d symbolic links: got %v, want %v", maxLinks+1, err, ErrEntry)
	}
}

// An entry for a folder that is there gives it what it has, and keeps the attributes that it does not name.
func TestLaterEntryOfAFolder(t *testing.T) {
	first := sample.Entry{Header: tar.Header{
		Name: "d/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 1, Gid: 2, ModTime: time.Unix(3, 0),
		PAXRecords: map[string]string{"SCHILY.xattr.user.a": "1", "SCHILY.xattr.user.b": "1"},
	}}
	second := sample.Entry{Header: tar.Header{
		Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: 4, Gid: 5, ModTime: time.Unix(6, 0),
		PAXRecords: map[string]string{"SCHILY.xattr.user.b": "2"},
	}}
	r, _, err := unpack(t, tarOf(t, []sample.Entry{first, f("d/a", "x"), second}))
	if err != nil {
		t.Fatal(err)
	}
	dir := r.tree.root.Entry("d")
	if dir.Mode != syscall.S_IFDIR|0o755 || dir.UID != 4 || dir.GID != 5 || dir.ModTime != 6 ||
		dir.Xattrs["user.a"] != "1" || dir.Xattrs["user.b"] != "2" || dir.Entry("a") == nil {
		t.Errorf("got %+v, want mode, owner, time and attribute b of the second entry", dir)
	}
}

// A hard link to a symbolic link changes the owner alone.
func TestHardLinkToASymbolicLink(t *testing.T) {
	link := tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a", Mode: 0o600, Uid: 5, ModTime: time.Unix(9, 0)}
	r, _, err := unpack(t, tarOf(t, []sample.Entry{s("a", "x"), {Header: link}}))
	if err != nil {
		t.Fatal(err)
	}
	if a := r.tree.root.Entry("a"); a.Mode != syscall.S_IFLNK|0o777 || a.UID != 5 || a.ModTime == 9 ||
		a != r.tree.root.Entry("b") {
		t.Errorf("got %+v, want a link with another owner", a)
	}
}

// Which contents are not found under the names that the stream gives them: the record has them instead.
func TestSupersededContents(t *testing.T) {
	for name, test := range map[string]struct {
		entries []sample.Entry
		want    []int
	}{
		"none":                   {[]sample.Entry{f("a", "x"), f("b", "x"), l("c", "a")}, nil},
		"replaced file":          {[]sample.Entry{f("a", "x"), f("a", "y")}, []int{0}},
		"replaced later":         {[]sample.Entry{f("b", "x"), f("a", "x"), d("c"), f("a", "y")}, []int{1}},
		"replaced folder":        {[]sample.Entry{f("d/a", "x"), f("d/b", "x"), f("d", "y")}, []int{0, 1}},
		"replaced empty file":    {[]sample.Entry{f("a", ""), f("a", "y")}, nil},
		"behind a symbolic link": {[]sample.Entry{s("l", "d"), f("l/a", "x"), f("b", "x")}, []int{1}},
		"marker with content":    {[]sample.Entry{f(".wh.a", "x"), f("b", "x")}, []int{0}},
		"linked to itself":       {[]sample.Entry{f("a", "x"), l("a", "a")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, err := unpack(t, tarOf(t, test.entries))
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range test.want {
				if !r.superseded[entry] {
					t.Errorf("got %v, want %v", r.superseded, test.want)
				}
			}
			if len(r.superseded) != len(test.want) {
				t.Errorf("got %v, want %v", r.superseded, test.want)
			}
		})
	}
}
