package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Limits for documents: those of at most maxHashed bytes are hashed, as long as all of them have no more than
// maxHashedAll. A folder has a few dozen files, and its store, if that is a folder, is listed as one.
const (
	maxHashed    = 16 << 20
	maxHashedAll = 256 << 20
	maxFiles     = 20_000
)

// place is where documents are: a folder, an ISO or beside a lock.
type place struct {
	ctx   context.Context
	sums  layout.Sums // nil if there are none
	names struct{ sums, store string }
	// signatures are the names of the files with signatures, by the documents.
	signatures map[string]string
	// hash returns the SHA-256 of a document, and read the text of a signature.
	hash func(name string) (string, error)
	read func(name string) ([]byte, error)
	left int64 // bytes that may be hashed
}

// readDocuments lists the documents. good are those whose signatures the caller has verified.
func (v *Inventory) readDocuments(ctx context.Context, name string, good []string) error {
	p := &place{ctx: ctx, signatures: map[string]string{}, left: maxHashedAll}
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		v.Documents, err = p.folder(name)
	} else if image, f, notISO := iso.OpenFile(name); notISO == nil {
		defer f.Close()
		v.Documents, err = p.iso(image, name)
	} else {
		v.Documents, err = p.lock(name, fi.Size())
	}
	if err != nil {
		return err
	}
	slices.SortFunc(v.Documents, func(a, b Document) int { return strings.Compare(a.Name, b.Name) })
	for i := range v.Documents {
		if err := p.describe(&v.Documents[i], good); err != nil {
			return err
		}
	}
	p.cover(v.Documents)
	return nil
}

// folder lists the files of a folder.
func (p *place) folder(dir string) (all []Document, err error) {
	if p.sums, err = artifact.ReadSums(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p.names.sums = artifact.SumsFile
	_, p.names.store = format.Find(p.sums)
	p.hash = func(name string) (string, error) {
		return artifact.SumFile(p.ctx, filepath.Join(dir, name), progress.Hooks{})
	}
	p.read = func(name string) ([]byte, error) { return readSignature(filepath.Join(dir, name)) }
	err = filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if e.IsDir() {
			if name == p.names.store {
				all = append(all, Document{Name: name, Files: p.inStore()})
				return fs.SkipDir
			}
			return nil
		}
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() {
			return err
		}
		if len(all) == maxFiles {
			return fmt.Errorf("it has more than %d files", maxFiles)
		}
		all = append(all, Document{Name: name, Size: fi.Size()})
		return nil
	})
	return append(p.separate(all), p.missing(all)...), err
}

// readSignature reads as much of a file as a signature can have, and a byte more.
func readSignature(name string) ([]byte, error) {
	f, err := input.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, signature.MaxSize+1))
}

// inStore is how many files of the sums are in the store, if that is a folder.
func (p *place) inStore() (n int) {
	for name := range p.sums {
		if strings.HasPrefix(name, p.names.store+"/") {
			n++
		}
	}
	return n
}

// missing are the documents that the sums list and that are not there. A store in parts is listed as a whole, too.
func (p *place) missing(there []Document) (all []Document) {
	known := map[string]bool{artifact.ISOBase: true} // it is not in an ISO as a file
	for _, d := range there {
		store, _ := layout.CutPart(d.Name)
		known[d.Name], known[store] = true, true
	}
	for _, file := range p.signatures {
		known[file] = true
	}
	for _, name := range slices.Sorted(maps.Keys(p.sums)) {
		if !known[name] && !strings.HasPrefix(name, p.names.store+"/") {
			all = append(all, Document{Name: name, Sums: Missing})
		}
	}
	return all
}

// iso lists what pinbox added to an ISO.
func (p *place) iso(image *iso.Image, name string) (all []Document, err error) {
	info, err := image.Info()
	if err != nil {
		return nil, err
	}
	p.names.sums, p.names.store = artifact.ISOSums, artifact.ISOStore
	p.hash = func(name string) (string, error) {
		sum, _, err := artifact.SumInISO(p.ctx, image, name, progress.Hooks{})
		return sum, err
	}
	p.read = func(name string) ([]byte, error) { return image.ReadText(path.Join(iso.Dir, name)) }
	for _, m := range info.Added {
		all = append(all, Document{Name: m.Name, Size: m.Size})
	}
	if slices.ContainsFunc(all, func(d Document) bool { return d.Name == artifact.ISOSums }) {
		text, err := p.read(artifact.ISOSums)
		if err == nil {
			p.sums, err = artifact.ParseSums(text, name, artifact.ISOSums)
		}
		if err != nil {
			return nil, err
		}
	}
	if info.Ignition != nil && p.sums[artifact.IgnitionFile] != "" {
		config, err := image.Ignition()
		if err != nil {
			return nil, err
		}
		all = append(all, Document{Name: artifact.IgnitionFile, Size: int64(len(config))})
	}
	own := map[string]string{artifact.ISOSignature: artifact.ISOStore, artifact.ISOSumsSignature: artifact.ISOSums}
	all = slices.DeleteFunc(all, func(d Document) bool {
		of := own[d.Name]
		if of != "" {
			p.signatures[of] = d.Name
		}
		return of != "" || d.Name == iso.UndoName // which no sum lists: it is made last
	})
	return append(all, p.missing(all)...), nil
}

// lock lists a lock, and the signatures beside it.
func (p *place) lock(name string, size int64) ([]Document, error) {
	dir, file := filepath.Split(name)
	p.hash = func(name string) (string, error) {
		return artifact.SumFile(p.ctx, filepath.Join(dir, name), progress.Hooks{})
	}
	p.read = func(name string) ([]byte, error) { return readSignature(filepath.Join(dir, name)) }
	if fi, err := os.Stat(name + layout.SignatureSuffix); err == nil && fi.Mode().IsRegular() {
		p.signatures[file] = file + layout.SignatureSuffix
	}
	return []Document{{Name: file, Kind: "lock", Size: size}}, nil
}

// separate takes the signatures of other documents out of a list.
func (p *place) separate(all []Document) []Document {
	there := map[string]bool{}
	for _, d := range all {
		there[d.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(d Document) bool {
		of, ok := strings.CutSuffix(d.Name, layout.SignatureSuffix)
		if ok = ok && (there[of] || p.sums[of] != ""); ok { // a store in parts has one, too
			p.signatures[of] = d.Name
		}
		return ok
	})
}

// describe completes a document.
func (p *place) describe(d *Document, good []string) error {
	d.Kind, d.Check = cmp.Or(d.Kind, p.kindOf(d.Name)), Unsigned
	if err := p.compare(d); err != nil {
		return err
	}
	if file := p.signatures[d.Name]; file != "" {
		s := Signature{File: file, Check: NotChecked}
		text, err := p.read(file)
		if err == nil {
			_, err = signature.Decode(text)
		}
		if err != nil {
			s.Problem = err.Error()
		}
		d.Signatures = append(d.Signatures, s)
		d.Check = NotChecked
	}
	if slices.Contains(good, d.Name) {
		d.Check = Verified
		for i := range d.Signatures {
			d.Signatures[i].Check = Verified
		}
	}
	return nil
}

// compare compares a document with the sums.
func (p *place) compare(d *Document) (err error) {
	listed := p.sums[d.Name]
	switch {
	case d.Files > 0 && len(p.sums) > 0, p.isPart(d.Name):
		d.Sums = Uncompared
	case d.Sums == Missing || d.Files > 0:
	case d.Size > maxHashed || d.Size > p.left:
		if d.SHA256 = listed; listed != "" {
			d.Sums = Uncompared
		}
	default:
		p.left -= d.Size
		if d.SHA256, err = p.hash(d.Name); err != nil {
			return err
		}
		switch {
		case p.sums == nil || d.Name == p.names.sums:
		case listed == "":
			d.Sums = Unlisted
		case listed == d.SHA256:
			d.Sums = Same
		default:
			d.Sums = Differs
		}
	}
	return nil
}

// cover says which documents are signed with the sums.
func (p *place) cover(all []Document) {
	i := slices.IndexFunc(all, func(d Document) bool { return d.Name == p.names.sums })
	if i < 0 || all[i].Check == Unsigned {
		return
	}
	for j := range all {
		d := &all[j]
		switch {
		case d.Sums == Same && all[i].Check == Verified:
			d.Check = Verified
		case d.Check == Unsigned && (d.Sums == Same || d.Sums == Uncompared):
			d.Check = NotChecked
		}
	}
}

// isPart reports whether a file is a part of the store. The sums have only the whole.
func (p *place) isPart(name string) bool {
	store, is := layout.CutPart(name)
	return is && p.names.store != "" && store == p.names.store
}

// kindOf says what a document is.
func (p *place) kindOf(name string) string {
	if p.isPart(name) {
		return "part of the store"
	}
	switch {
	case name == p.names.store:
		return "store"
	case name == p.names.sums:
		return "sums"
	case strings.HasPrefix(name, artifact.ManifestsDir+"/"):
		return "PinnedImageSet"
	case strings.HasSuffix(name, ".roothash"):
		return "root hash of the store"
	}
	return cmp.Or(kinds[name], "file")
}

// kinds of documents by their names.
var kinds = map[string]string{
	artifact.LockFile: "lock", artifact.ISOLock: "lock", artifact.ProvenanceFile: "provenance",
	artifact.IgnitionFile: "Ignition config", artifact.ButaneFile: "Butane config",
	artifact.LiveIgnitionFile:   "Ignition config of the live system",
	artifact.LiveButaneFile:     "Butane config of the live system",
	artifact.MergedIgnitionFile: "Ignition config of the ISO", artifact.ISOFile: "live ISO",
	artifact.ProgramFile: "program of the node", artifact.AllowlistFile: "example of a kubelet's configuration",
	artifact.DeltaFile: "description of the delta",
}
