package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
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

// readDocuments lists the documents of a release, by their names. good are those whose signatures the caller has
// verified.
func readDocuments(ctx context.Context, r *release.Release, good []string) (all []Document, err error) {
	sums, err := r.Sums()
	if err != nil && r.Names.Sums != "" && !release.IsMissing(err) {
		return nil, err
	}
	switch r.Form {
	case release.Folder:
		all, err = inFolder(r, sums)
	case release.Medium:
		all, err = inISO(r, sums)
	default: // a lock
		var lock release.Document
		if lock, err = r.Open(r.Names.Lock); err == nil {
			all = []Document{{Name: r.Names.Lock, Size: lock.Size}}
			err = lock.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	all = append(all, missingOf(r, sums, all)...)
	signatures := map[string]bool{} // files with the signature of a document
	for _, d := range all {
		signatures[r.SignatureFile(d.Name)] = true
	}
	for name := range sums { // a store in parts has one, too
		signatures[r.SignatureFile(name)] = true
	}
	all = slices.DeleteFunc(all, func(d Document) bool { return signatures[d.Name] })
	slices.SortFunc(all, func(a, b Document) int { return strings.Compare(a.Name, b.Name) })
	ofSums := Document{Name: r.Names.Sums, Check: Unsigned}
	if sums != nil {
		ofSums.readSignature(r, slices.Contains(good, ofSums.Name))
	}
	left := int64(maxHashedAll)
	for i := range all {
		d := &all[i]
		d.Kind = documentKind(r, d.Name)
		if err := d.compare(ctx, r, sums, &left); err != nil {
			return nil, err
		}
		d.readSignature(r, slices.Contains(good, d.Name))
		switch { // what they list is signed with them
		case d.Sums == Same && ofSums.Check == Verified:
			d.Check = Verified
		case d.Check == Unsigned && (d.Sums == Same || d.Sums == Uncompared) && ofSums.Check != Unsigned:
			d.Check = NotChecked
		}
	}
	return all, nil
}

// inFolder lists the files of a folder. A store that is a folder has as many files as the sums list.
func inFolder(r *release.Release, sums layout.Sums) (all []Document, err error) {
	err = filepath.WalkDir(r.Name, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.Name, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if e.IsDir() && name == r.Names.Store {
			store := Document{Name: name}
			for listed := range sums {
				if strings.HasPrefix(listed, name+"/") {
					store.Files++
				}
			}
			all = append(all, store)
			return fs.SkipDir
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
	return all, err
}

// inISO lists what pinbox added to an ISO.
func inISO(r *release.Release, sums layout.Sums) (all []Document, err error) {
	info, err := iso.Of(r.Image).Info()
	if err != nil {
		return nil, err
	}
	for _, m := range info.Added {
		if m.Name != iso.UndoName { // which no sum lists: it is made last
			all = append(all, Document{Name: m.Name, Size: m.Size})
		}
	}
	if info.Ignition != nil && sums[artifact.IgnitionFile] != "" {
		config, err := artifact.OpenPart(r, artifact.IgnitionFile)
		if err != nil {
			return nil, err
		}
		all = append(all, Document{Name: artifact.IgnitionFile, Size: config.Size})
	}
	return all, nil
}

// missingOf are the documents that the sums list and that are not there. A store in parts is listed as a whole, too.
func missingOf(r *release.Release, sums layout.Sums, there []Document) (all []Document) {
	known := map[string]bool{layout.MediumBase: true} // it is not in an ISO as a file
	for _, d := range there {
		store, _ := layout.CutPart(d.Name)
		known[d.Name] = true
		known[store] = true
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if !known[name] && !strings.HasPrefix(name, r.Names.Store+"/") {
			all = append(all, Document{Name: name, Sums: Missing})
		}
	}
	return all
}

// compare compares a document with the sums, if it is not too large to be hashed. left are the bytes that may be.
func (d *Document) compare(ctx context.Context, r *release.Release, sums layout.Sums, left *int64) error {
	listed := sums[d.Name]
	switch {
	case d.Files > 0 && len(sums) > 0, d.Kind == partOfStore:
		d.Sums = Uncompared
		return nil
	case d.Sums == Missing || d.Files > 0:
		return nil
	case d.Size > maxHashed || d.Size > *left:
		if d.SHA256 = listed; listed != "" {
			d.Sums = Uncompared
		}
		return nil
	}
	*left -= d.Size
	f, err := artifact.OpenPart(r, d.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.SHA256, _, err = artifact.SumReader(ctx, f, progress.Hooks{}); err != nil {
		return err
	}
	switch {
	case sums == nil || d.Name == r.Names.Sums:
	case listed == "":
		d.Sums = Unlisted
	case listed == d.SHA256:
		d.Sums = Same
	default:
		d.Sums = Differs
	}
	return nil
}

// readSignature reads the signature of a document of its own, which may be verified.
func (d *Document) readSignature(r *release.Release, good bool) {
	d.Check = Unsigned
	var text []byte
	var err error
	file := r.SignatureFile(d.Name)
	if file != "" {
		text, err = r.Signature(d.Name)
	}
	if text != nil || err != nil {
		d.Check = NotChecked
		d.Signatures = []Signature{{File: file, Check: NotChecked}}
		if err == nil {
			_, err = signature.Decode(text)
		}
		if err != nil {
			d.Signatures[0].Problem = err.Error()
		}
	}
	if good {
		d.Check = Verified
		for i := range d.Signatures {
			d.Signatures[i].Check = Verified
		}
	}
}

// partOfStore is the kind of a part of the store. The sums have only the whole.
const partOfStore = "part of the store"

// documentKind says what a document is.
func documentKind(r *release.Release, name string) string {
	store, isPart := layout.CutPart(name)
	switch {
	case isPart && store == r.Names.Store:
		return partOfStore
	case name == r.Names.Store:
		return "store"
	case name == r.Names.Lock:
		return "lock"
	case name == r.Names.Sums:
		return "sums"
	case strings.HasPrefix(name, artifact.AlwaysDir+"/"):
		return "policy for pods with the pull policy Always"
	case path.Dir(name) == artifact.ManifestsDir, path.Dir(name) == artifact.OpenShiftSetsDir:
		return "PinnedImageSet"
	case strings.HasPrefix(name, artifact.ManifestsDir+"/"):
		return "object for the cluster"
	case strings.HasSuffix(name, ".roothash"):
		return "root hash of the store"
	}
	return cmp.Or(documentKinds[name], "file")
}

// documentKinds are those of documents that have the same name in all forms.
var documentKinds = map[string]string{
	layout.ProvenanceFile:       "provenance",
	artifact.IgnitionFile:       "Ignition config",
	artifact.ButaneFile:         "Butane config",
	artifact.LiveIgnitionFile:   "Ignition config of the live system",
	artifact.LiveButaneFile:     "Butane config of the live system",
	artifact.MergedIgnitionFile: "Ignition config of the ISO",
	artifact.ISOFile:            "live ISO",
	artifact.ProgramFile:        "program of the node",
	artifact.AllowlistFile:      "example of a kubelet's configuration",
	layout.DeltaFile:            "description of the delta",
}
