package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/provenance"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
	"github.com/pinbox/pinbox/storage/verity"
)

// Result describes what was verified.
type Result struct {
	Dir    string        `json:"dir"`
	Files  int           `json:"files"`
	Totals pinset.Totals `json:"totals"`
	// StoreSize in bytes.
	StoreSize int64 `json:"storeSize"`
	// StoreDigest is the digest of the store's file; "" if the store is a folder.
	StoreDigest string `json:"storeDigest,omitempty"`
	// StoreRootHash is the root of the store's hash tree, which was computed; "" if the format has none.
	StoreRootHash string `json:"storeRootHash,omitempty"`
	// Layers is how many layers were read again; 0 unless that was asked for.
	Layers int `json:"layersRead,omitempty"`
	// Delta describes a delta; nil for an appliance.
	Delta *Delta `json:"delta,omitempty"`
	// Signed lists the files with good signatures; none if there was no key.
	Signed []string `json:"signed,omitempty"`
	// Unchecked lists what could not be checked, and why.
	Unchecked []string `json:"unchecked,omitempty"`
}

// failed is the error of a verification. Its cause counts if that says what is damaged; what else is wrong in damaged
// files is no error of the user's input.
func failed(name string, cause error) error {
	err := fmt.Errorf("%s: %w:\n%w", name, release.ErrVerify, cause)
	if found := fault.Of(cause); found != nil && found.Exit == fault.Damaged {
		return err
	}
	of := fault.Of(release.ErrVerify)
	return fault.With(err, of.Exit, of.Hint)
}

// Options say what Release checks besides.
type Options struct {
	// Keys, one of which must have signed the sums; none for any release.
	Keys signature.Keys
	// Bases are the stores that a delta was built over. They are checked with it.
	Bases []string
	Hooks progress.Hooks
}

// Release verifies an appliance's or a delta's folder, or an ISO. It returns release.ErrVerify with all problems that
// it finds. With keys it checks the signatures first, since only they say who made the rest.
func Release(ctx context.Context, name string, o Options) (v Result, err error) {
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return v, err
	}
	r, err := release.Open(name, o.Keys)
	if err != nil {
		return v, err
	}
	defer r.Close()
	var signed []string
	if !o.Keys.IsEmpty() {
		if signed, err = Signatures(ctx, r, o.Keys, o.Hooks); err != nil {
			return v, err
		}
	}
	if v, err = verified(ctx, r, o.Hooks); err == nil && len(o.Bases) > 0 {
		err = v.withBases(ctx, r, o.Bases, o.Hooks)
	}
	if err != nil {
		return Result{}, err
	}
	v.Signed = signed
	return v, nil
}

// verified verifies a release without its bases.
func verified(ctx context.Context, r *release.Release, hooks progress.Hooks) (Result, error) {
	sums, err := r.Sums()
	if err != nil {
		return Result{}, err
	}
	v := Result{Dir: r.Name, Files: len(sums)}
	switch {
	case r.Form == release.Medium:
		err = v.medium(ctx, r, sums, hooks)
	case r.InParts():
		err = v.split(ctx, r, sums, hooks)
	default:
		err = v.folder(ctx, r, sums, hooks)
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if err != nil {
		return Result{}, failed(r.Name, err)
	}
	return v, nil
}

// folder verifies the folder of an appliance or a delta.
func (v *Result) folder(ctx context.Context, r *release.Release, sums layout.Sums, hooks progress.Hooks) error {
	dir := r.Name
	store, err := v.store(ctx, dir, sums, hooks)
	got := layout.Sums{}
	if store.Sum != "" {
		got[store.Name] = store.Sum
	}
	errs := []error{
		err, compareSums(ctx, dir, sums, store.Name, got, hooks), checkTexts(sums, r.IsDelta()), compareISO(dir, sums),
	}
	lock, err := r.Lock()
	if err != nil {
		errs = append(errs, err)
	} else {
		v.Totals = lock.Totals()
		errs = append(errs, checkManifests(dir, lock, sums))
		if !r.IsDelta() {
			errs = append(errs, checkConfig(dir, lock, store.Tree))
		}
		if errors.Join(errs...) == nil { // else the store may be unreadable
			errs = append(errs, v.records(r, lock))
		}
		if errors.Join(errs...) == nil { // else it is about other files, too
			errs = append(errs, checkProvenance(r, lock, sums))
		}
	}
	return errors.Join(errs...)
}

// records compares the store of a folder with the lock and, of a delta, with its description.
func (v *Result) records(r *release.Release, lock pinset.Lock) error {
	if r.IsDelta() {
		return v.delta(r, lock)
	}
	store, err := r.Store()
	if err != nil {
		return err
	}
	return checkStore(store, lock)
}

// compareSums compares the sums of all files. Those in got are not computed again.
func compareSums(
	ctx context.Context, dir string, want layout.Sums, store string, got layout.Sums, hooks progress.Hooks,
) error {
	if err := artifact.SumTree(ctx, dir, store, got, hooks); err != nil {
		return err
	}
	return differences(want, got)
}

// differences compares sums with those of the files.
func differences(want, got layout.Sums) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch sum, ok := got[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is missing", name))
		case sum != want[name]:
			errs = append(errs, fmt.Errorf("%s has changed: SHA-256 %s, was %s", name, sum, want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok && !signs(name, want) {
			errs = append(errs, fmt.Errorf("%s is not in %s", name, layout.SumsFile))
		}
	}
	return errors.Join(errs...)
}

// checkTexts wants sums of the small files that every folder has.
func checkTexts(want layout.Sums, isDelta bool) error {
	var errs []error
	texts := []string{artifact.ButaneFile, artifact.IgnitionFile, layout.LockFile, layout.ProvenanceFile}
	if isDelta {
		texts = []string{layout.DeltaFile, layout.LockFile, layout.ProvenanceFile}
	}
	for _, name := range texts {
		if _, ok := want[name]; !ok {
			errs = append(errs, fmt.Errorf("%s has no entry for %s", layout.SumsFile, name))
		}
	}
	return errors.Join(errs...)
}

// signs reports whether a file is the detached signature of the sums or of a file that they list.
func signs(name string, sums layout.Sums) bool {
	of, is := strings.CutSuffix(name, layout.SignatureSuffix)
	return is && (of == layout.SumsFile || sums[of] != "")
}

// compareISO compares the files in the ISO with those in the folder, by their sums.
func compareISO(dir string, sums layout.Sums) error {
	if _, ok := sums[artifact.ISOFile]; !ok {
		return nil
	}
	r, err := artifact.OpenISO(filepath.Join(dir, artifact.ISOFile))
	if err != nil {
		return err
	}
	defer r.Close()
	info, err := artifact.Inspect(r)
	if err != nil {
		return err
	}
	config := cmp.Or(sums[artifact.MergedIgnitionFile], sums[artifact.LiveIgnitionFile], sums[artifact.IgnitionFile])
	want := map[string]string{
		layout.MediumLock: sums[layout.LockFile], layout.MediumStore: sums[layout.StoreFile], artifact.IgnitionFile: config,
		layout.MediumRootHash: sums[layout.RootHashFile(layout.StoreFile)],
	}
	members := info.Added
	if info.Ignition != nil {
		members = append(members, info.Ignition.Members...)
	}
	for _, m := range members {
		if sum, ok := want[m.Name]; ok && m.SHA256 != sum {
			return fmt.Errorf("%s has another %s than the folder: SHA-256 %s, not %s", artifact.ISOFile, m.Name, m.SHA256, sum)
		}
	}
	return nil
}

// store checks that the folder's store is complete, and that its hash tree has the root hash of the folder.
func (v *Result) store(
	ctx context.Context, dir string, sums layout.Sums, hooks progress.Hooks,
) (store artifact.Store, err error) {
	f, name := format.Find(sums)
	if f == nil {
		return store, fmt.Errorf("%s has no entry for a store", layout.SumsFile)
	}
	v.StoreDigest = artifact.Store{Sum: sums[name]}.Digest()
	store, err = f.Verify(ctx, filepath.Join(dir, name), hooks)
	v.StoreSize, v.StoreRootHash = store.Size, store.RootHash()
	if err == nil && !store.Tree.IsZero() {
		err = sameRootHash(store.Tree, sums, layout.RootHashFile(name))
	}
	return store, err
}

// sameRootHash compares the root of a store with the sum of the file that has it.
func sameRootHash(tree verity.Tree, sums layout.Sums, file string) error {
	if sum := sha256.Sum256(tree.RootHash()); sums[file] != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("%s is not the root hash of the store, which is %s", file, tree.Root.Encoded())
	}
	return nil
}

// checkManifests compares the manifests with the sets in the lock.
func checkManifests(dir string, lock pinset.Lock, sums layout.Sums) error {
	var errs []error
	for _, locked := range lock.Sets {
		set, err := locked.Set()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: set %q: %w", layout.LockFile, locked.Name, err))
			continue
		}
		name := path.Join(artifact.OpenShiftSetsDir, pinset.FileName(locked.Name))
		if _, ok := sums[name]; !ok {
			name = path.Join(artifact.ManifestsDir, pinset.FileName(locked.Name))
		}
		content, err := input.Read(filepath.Join(dir, name))
		if _, ok := sums[name]; ok && errors.Is(err, fs.ErrNotExist) {
			continue // compareSums has reported it
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got, _, err := pinset.DecodeSets(bytes.NewReader(content), name)
		if err != nil {
			errs = append(errs, err)
		} else if len(got) != 1 || got[0].Name != set.Name || !maps.Equal(got[0].Labels, set.Labels) ||
			!slices.Equal(pinset.Union(got[0]), set.Images) {
			errs = append(errs, fmt.Errorf("%s is not the set of the lock", name))
		}
	}
	return errors.Join(errs...)
}

// checkConfig compares the Ignition config with the Butane config, its pins with the lock, and the root that it
// names with that of the store.
func checkConfig(dir string, lock pinset.Lock, tree verity.Tree) error {
	bu, err := input.Read(filepath.Join(dir, artifact.ButaneFile))
	if err != nil {
		return err
	}
	ign, err := input.Read(filepath.Join(dir, artifact.IgnitionFile))
	if err != nil {
		return err
	}
	want, err := ignition.Translate(bu)
	if err != nil {
		return fmt.Errorf("%s: %w", artifact.ButaneFile, err)
	}
	if !bytes.Equal(want, ign) {
		return fmt.Errorf("%s is not what %s translates to", artifact.IgnitionFile, artifact.ButaneFile)
	}
	var images []pinset.Image
	for _, pin := range lock.Pins() {
		img, err := pinset.ParseImage(pin)
		if err != nil {
			return fmt.Errorf("%s: %w", layout.LockFile, err)
		}
		images = append(images, img)
	}
	files, err := ignition.Files(ign)
	if err != nil {
		return fmt.Errorf("%s: %w", artifact.IgnitionFile, err)
	}
	if !bytes.Equal(files[crio.PinnedImagesPath], crio.RenderPinned(images)) {
		return fmt.Errorf("%s does not pin the images of the lock", artifact.IgnitionFile)
	}
	named, err := ignition.StoreTree(ign)
	switch { // without a tree, the store could not be read, or has none
	case err != nil || tree.IsZero():
	case named.IsZero():
		err = errors.New("no root hash of the store")
	case named != tree:
		err = errors.New("another root hash than that of the store")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", artifact.IgnitionFile, err)
	}
	return nil
}

// Signatures checks the signature of the store of a release, if it has one. That of the sums, which covers all files
// once Release has compared them, was checked when the release was opened with the keys. It returns the names of the
// files with good signatures.
func Signatures(
	ctx context.Context, r *release.Release, keys signature.Keys, hooks progress.Hooks,
) (good []string, err error) {
	good = []string{r.Names.Sums}
	proof, err := r.Signature(r.Names.Store)
	if proof == nil || r.Names.Store == "" {
		return good, err
	}
	store, err := r.StoreBytes()
	if release.IsMissing(err) && r.Form == release.Medium { // it is on a second medium
		return good, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	defer store.Close()
	hooks.Begin("verify the signature of "+r.Names.Store, store.Size)
	sum, _, err := artifact.SumReader(ctx, store, hooks)
	if err == nil {
		err = keys.Verify(layout.StoreSums(sum), proof)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", r.Name, r.Names.Store, err)
	}
	return append(good, r.Names.Store), nil
}

// checkProvenance compares the provenance statement of a release with its sums and its lock. On a medium, the statement
// has the names of the folder that the medium was made of.
func checkProvenance(r *release.Release, lock pinset.Lock, sums layout.Sums) error {
	text, err := r.Provenance()
	if err != nil {
		return err
	}
	s, err := readProvenance(text, lock)
	if err != nil {
		return err
	}
	names := []string{r.Names.Store, r.Names.Lock}
	if r.Form == release.Folder {
		names = append(names, artifact.ISOFile)
	}
	about := 0
	for _, name := range names {
		sum := sums[name]
		if sum == "" { // a store that is a folder has none
			continue
		}
		about++
		if r.Form == release.Folder && s.Subjects[name] != sum ||
			!slices.Contains(slices.Collect(maps.Values(s.Subjects)), sum) {
			return fmt.Errorf("%s is not about %s with the SHA-256 %s", r.Names.Provenance, name, sum)
		}
	}
	if r.Form == release.Folder && len(s.Subjects) > about && !r.InParts() { // the other is the ISO of what was split
		return fmt.Errorf("%s is about %d files, want %d", r.Names.Provenance, len(s.Subjects), about)
	}
	return nil
}

// readProvenance reads a statement, and checks that it is about the images of the lock.
func readProvenance(text []byte, lock pinset.Lock) (provenance.Statement, error) {
	s, err := provenance.Decode(bytes.NewReader(text))
	if err != nil {
		return s, fmt.Errorf("%s: %w", layout.ProvenanceFile, err)
	}
	for _, name := range lock.Pins() {
		pin, err := pinset.ParseImage(name)
		if err != nil {
			return s, fmt.Errorf("%s: %w", layout.LockFile, err)
		}
		if s.Inputs[provenance.ImageURI(name)] != pin.Digest.Encoded() {
			return s, fmt.Errorf("%s does not list %s", layout.ProvenanceFile, name)
		}
	}
	return s, nil
}
