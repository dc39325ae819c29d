package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
)

// Write writes the object to a file, and its signature beside it, in a folder to which no link leads.
func (o Object) Write(file string, by signature.Signer) error {
	content, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	content = append(content, '\n')
	limit := MaxObjectBytes
	if len(o.Content) > 0 { // no API takes it
		limit = maxListBytes
	}
	if len(content) > limit {
		return fmt.Errorf("report: %d bytes, more than %d", len(content), limit)
	}
	folder, err := atomicfile.OpenFolder(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer folder.Close()
	name := filepath.Base(file)
	if !by.IsZero() { // first: a report without its signature would be refused
		sum, err := by.Sign(content)
		if err != nil {
			return err
		}
		if _, err := atomicfile.WriteIn(folder, name+layout.SignatureSuffix, sum, 0o644); err != nil {
			return err
		}
	}
	_, err = atomicfile.WriteIn(folder, name, content, 0o644)
	return err
}

// Read reads the reports in files, and in the files *.json of folders. With keys, one of them must have signed each
// file, or nothing of it is read, and its reports are of the nodes of that key. broken are the files of folders that
// cannot be read, and why.
func Read(paths []string, keys Keys) (objects []Object, broken map[string]error, err error) {
	broken = map[string]error{}
	var files, named []string
	for _, path := range paths {
		fi, err := os.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		if !fi.IsDir() {
			named = append(named, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			switch file := filepath.Join(path, e.Name()); {
			case !strings.HasSuffix(e.Name(), ".json") || e.IsDir():
			case e.Type().IsRegular():
				files = append(files, file)
			default: // a link may lead anywhere; one that nobody told of would be a node that nobody misses
				broken[line(file)] = input.ErrNotRegular
			}
		}
	}
	left := budget{maxNodes, maxElements}
	for _, file := range slices.Concat(named, files) {
		more, err := readFile(file, keys)
		for _, o := range more {
			if err == nil {
				err = left.spend(o)
			}
		}
		switch {
		case err == nil:
			objects = append(objects, more...)
		case slices.Contains(named, file):
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		default:
			broken[line(file)] = lineError{err}
		}
	}
	return objects, broken, nil
}

// readFile reads a file once: what was verified is what is decoded.
func readFile(file string, keys Keys) ([]Object, error) {
	f, err := input.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxListBytes+1)) // a byte more, which Decode refuses
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return Decode(content)
	}
	sum, err := signature.ReadBeside(file, nil)
	if err != nil {
		return nil, err
	}
	nodes, err := keys.verify(content, sum)
	if err != nil {
		return nil, err
	}
	objects, err := Decode(content)
	for _, o := range objects {
		if err == nil {
			err = speaksFor(o.Metadata.Name, nodes)
		}
	}
	return objects, err
}

// IsReports reports whether a path is a file of reports, or a folder that has no appliance and files *.json of which
// the first is one of reports. An appliance or a lock has no apiVersion.
func IsReports(path string) bool {
	if entries, err := os.ReadDir(path); err == nil {
		if _, err := os.Stat(filepath.Join(path, layout.SumsFile)); err == nil {
			return false
		}
		i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".json") })
		if i < 0 {
			return false
		}
		path = filepath.Join(path, entries[i].Name())
	}
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() { // opening a pipe would block
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start, _ := io.ReadAll(io.LimitReader(f, 64))
	return strings.HasPrefix(strings.TrimSpace(string(start)), "{") && bytes.Contains(start, []byte(`"apiVersion"`))
}

// Nodes are those of which there are objects; the newest of each counts. A broken file is one, too.
func Nodes(objects []Object, broken map[string]error, now time.Time) (nodes []Node) {
	for name, o := range Newest(objects, now) {
		nodes = append(nodes, Node{Name: name, Report: o.Status})
	}
	for file, err := range broken {
		nodes = append(nodes, Node{Name: file, Broken: err})
	}
	return nodes
}

// ParseRelease reads the name of an appliance, or one with the number of a release after a slash: edge/7.
func ParseRelease(text string) (r pinset.ReleaseID, err error) {
	name, number, found := strings.Cut(text, "/")
	r.Name = name
	if found {
		if _, err = fmt.Sscanf(number, "%d", &r.Number); err != nil || r.Number < 1 {
			return r, fmt.Errorf("release %q: it is the name of an appliance, or NAME/NUMBER", text)
		}
	}
	return r, r.Check()
}
