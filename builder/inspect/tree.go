package inspect

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"
)

// maxMembers is how many members of a folder the tree keeps; the others are summed up, and so are those that take
// less than a part of the store. Nobody sees them on a screen.
const (
	maxMembers = 16
	partOfTree = 4000
)

// hashOf returns the hash of a path: a store has half a million of them.
func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// member returns a member, and makes it if there is none.
func (f *Folder) member(name string) *Folder {
	if f.byName == nil {
		f.byName = map[string]*Folder{}
	}
	m := f.byName[name]
	if m == nil {
		m = &Folder{Name: name}
		f.byName[name], f.Members = m, append(f.Members, m)
	}
	return m
}

// add adds a file.
func (f *Folder) add(name string, stored int64) {
	if stored == 0 {
		return
	}
	for part := range strings.SplitSeq(name, "/") {
		f = f.member(part)
	}
	f.Stored, f.Kind = f.Stored+stored, kindOf(name)
}

// prune sums up the folder, and keeps only its largest members, down to the files, of at least so many bytes.
func (f *Folder) prune(least int64) {
	f.sum()
	f.cut(least)
}

func (f *Folder) cut(least int64) {
	f.byName = nil
	keep := 0
	for keep < min(len(f.Members), maxMembers) && f.Members[keep].Stored >= least {
		keep++
	}
	if len(f.Members) > keep+1 {
		others := &Folder{Name: fmt.Sprintf("%d others", len(f.Members)-keep), Kind: "other"}
		for _, m := range f.Members[keep:] {
			others.Stored += m.Stored
		}
		f.Members = append(f.Members[:keep:keep], others)
	}
	for _, m := range f.Members {
		for len(m.Members) == 1 && len(m.Members[0].Members) > 0 { // usr/share, if usr has nothing else
			m.Name, m.Members = m.Name+"/"+m.Members[0].Name, m.Members[0].Members
		}
		m.cut(least)
	}
}

// sum sums up the folder, and sorts its members.
func (f *Folder) sum() {
	if len(f.Members) == 0 {
		return
	}
	f.Stored = 0
	for _, m := range f.Members {
		m.sum()
		f.Stored += m.Stored
	}
	slices.SortFunc(f.Members, func(a, b *Folder) int {
		return cmp.Or(cmp.Compare(b.Stored, a.Stored), strings.Compare(a.Name, b.Name))
	})
}

// kinds of files by the endings of their names.
var kinds = map[string]string{
	".so": "program", ".a": "program", ".o": "program", ".jar": "java", ".class": "java",
	".py": "script", ".pyc": "script", ".js": "script", ".rb": "script", ".pl": "script",
	".pm": "script", ".sh": "script", ".html": "text", ".gz": "text", ".md": "text", ".txt": "text",
	".mo": "text", ".h": "text", ".json": "data", ".xml": "data", ".yaml": "data", ".db": "data",
	".sqlite": "data", ".dat": "data", ".tar": "data", ".zip": "data", ".whl": "data",
}

// kindOf says what a file is, by its name: program, java, script, text, data or other.
func kindOf(name string) string {
	if kind := kinds[strings.ToLower(path.Ext(name))]; kind != "" {
		return kind
	}
	dir, file := path.Split(name)
	switch {
	case strings.Contains(file, ".so."), strings.HasSuffix(dir, "bin/"), strings.Contains(dir, "libexec/"):
		return "program"
	case strings.Contains(dir, "/doc/"), strings.Contains(dir, "/man/"), strings.Contains(dir, "/locale/"):
		return "text"
	case strings.HasPrefix(dir, "var/lib/"):
		return "data"
	}
	return "other"
}
