package inventory

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

// Limits for documents: those of at most maxHashed bytes are hashed, as long as all of them have no more than
// maxHashedAll. A folder has a few dozen files, and its store, if that is a folder, is listed as one.
const (
	maxHashed    = 16 << 20
	maxHashedAll = 256 << 20
	maxFiles     = 20_000
)

// place is where documents are: a release, opened, and what was found out about it.
type place struct {
	ctx  context.Context
	from *release.Release
	sums layout.Sums // nil if there are none
	// signatures are the names of the files with signatures, by the documents.
	signatures map[string]string
	left       int64 // bytes that may be hashed
}

// readDocuments lists the documents. good are those whose signatures the caller has verified.
func (v *Inventory) readDocuments(ctx context.Context, r *release.Release, good []string) (err error) {
	p := &place{ctx: ctx, from: r, signatures: map[string]string{}, left: maxHashedAll}
	if p.sums, err = r.Sums(); err != nil && r.Names.Sums != "" && !release.IsMissing(err) {
		return err
	}
	switch r.Form {
	case release.Folder:
		v.Documents, err = p.folder(r.Name)
	case release.Medium:
		v.Documents, err = p.iso()
	default:
		v.Documents, err = p.lock()
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
			if name == p.from.Names.Store {
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

// inStore is how many files of the sums are in the store, if that is a folder.
func (p *place) inStore() (n int) {
	for name := range p.sums {
		if strings.HasPrefix(name, p.from.Names.Store+"/") {
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
		if !known[name] && !strings.HasPrefix(name, p.from.Names.Store+"/") {
			all = append(all, Document{Name: name, Sums: Missing})
		}
	}
	return all
}

// iso lists what pinbox added to an ISO.
func (p *place) iso() (all []Document, err error) {
	info, err := iso.Of(p.from.Image).Info()
	if err != nil {
		return nil, err
	}
	for _, m := range info.Added {
		all = append(all, Document{Name: m.Name, Size: m.Size})
	}
	if info.Ignition != nil && p.sums[artifact.IgnitionFile] != "" {
		config, err := artifact.OpenPart(p.from, artifact.IgnitionFile)
		if err != nil {
			return nil, err
		}
		all = append(all, Document{Name: artifact.IgnitionFile, Size: config.Size})
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

// lock lists a lock, and the signature beside it.
func (p *place) lock() ([]Document, error) {
	name := p.from.Names.Lock
	f, err := p.from.Open(name)
	if err != nil {
		return nil, err
	}
	if proof, err := p.from.Signature(name); proof != nil || err != nil {
		p.signatures[name] = name + layout.SignatureSuffix
	}
	return []Document{{Name: name, Kind: "lock", Size: f.Size}}, f.Close()
}

// hash returns the SHA-256 of a document.
func (p *place) hash(name string) (string, error) {
	f, err := p.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, _, err := artifact.SumReader(p.ctx, f, progress.Hooks{})
	return sum, err
}

func (p *place) open(name string) (release.Document, error) {
	if p.from.Form == release.Medium {
		return artifact.OpenPart(p.from, name)
	}
	return p.from.Open(name)
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
		text, err := p.from.Signature(d.Name)
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
		case p.sums == nil || d.Name == p.from.Names.Sums:
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
	i := slices.IndexFunc(all, func(d Document) bool { return d.Name == p.from.Names.Sums })
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
	return is && store == p.from.Names.Store
}

// kindOf says what a document is.
func (p *place) kindOf(name string) string {
	if p.isPart(name) {
		return "part of the store"
	}
	switch {
	case name == p.from.Names.Store:
		return "store"
	case name == p.from.Names.Sums:
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
