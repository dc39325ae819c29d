package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

const repository = "quay.io/x/app"

// object is a JSON object.
type object map[string]any

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of values in this file only
	}
	return text
}

// store is a delta with one image: its layer "top" is on the layer "below" of another store.
type store struct {
	fstest.MapFS
	config, manifest, index []byte
	image                   layout.Image
	layer                   layout.Layer
	lock                    pinset.Lock
	delta                   pinset.Delta
}

var (
	belowDiff = digest.FromString("below")
	topDiff   = digest.FromString("top")
	below     = layout.LayerID("", belowDiff)
	top       = layout.LayerID(below, topDiff)
)

// valid makes a store that matches its records.
func valid() *store {
	s := &store{MapFS: fstest.MapFS{}}
	s.config = encode(object{"rootfs": object{"diff_ids": []digest.Digest{belowDiff, topDiff}}})
	s.manifest = manifestOf(s.config, 2)
	s.index = encode(object{"manifests": []object{{"digest": digest.FromBytes(s.manifest)}}})
	pin := repository + "@" + digest.FromBytes(s.index).String()
	s.image = layout.Image{
		ID: digest.FromBytes(s.config).Encoded(), Digest: digest.FromBytes(s.manifest),
		Names: []string{pin, repository + ":1"}, TopLayer: top,
		BigDataDigests: map[string]digest.Digest{}, BigDataSizes: map[string]int64{},
	}
	s.layer = layout.Layer{ID: top, Parent: below, UncompressedDigest: topDiff}
	s.lock = pinset.Lock{Version: 1, ReleaseID: pinset.ReleaseID{Name: "edge", Number: 7}, Platform: "linux/amd64", Images: []pinset.LockedImage{{
		Pin: pin, Tags: s.image.Names[1:], Index: digest.FromBytes(s.index), Manifest: s.image.Digest,
		Config: digest.FromBytes(s.config),
	}}}
	s.delta = pinset.Delta{
		Version: 1, Needs: []pinset.Need{{Layer: below, Link: layout.LinkName(below)}},
	}
	s.document(layout.ConfigKey(s.image.ID), s.config)
	s.document(layout.ManifestData, s.manifest)
	s.document(layout.ManifestKey(s.image.Digest), s.manifest)
	s.document(layout.ManifestKey(digest.FromBytes(s.index)), s.index)
	dir := "overlay/" + top
	s.MapFS[dir+"/diff"] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	s.text(dir+"/link", layout.LinkName(top))
	s.text(dir+"/lower", "l/"+layout.LinkName(below))
	s.text(dir+"/lower-layers", below)
	s.MapFS["overlay/l/"+layout.LinkName(top)] = &fstest.MapFile{
		Mode: fs.ModeSymlink | 0o777, Data: []byte("../" + top + "/diff"),
	}
	s.text(layout.TarSplitFile(top), "tar-split")
	s.text("pinbox/sets/s.yaml", "kind: PinnedImageSet\napiVersion: machineconfiguration.openshift.io/v1\n"+
		"metadata: {name: s}\nspec: {pinnedImages: [{name: "+pin+"}]}\n")
	s.text("pinbox/files/etc/hosts", "")
	s.write()
	return s
}

// write writes the records, the lock and delta.json.
func (s *store) write() {
	s.records([]layout.Layer{s.layer}, []layout.Image{s.image})
	var lock, delta bytes.Buffer
	if err := errors.Join(s.lock.Encode(&lock), s.delta.Encode(&delta)); err != nil {
		panic(err)
	}
	s.text(layout.OwnLock, lock.String())
	s.text(layout.OwnDelta, delta.String())
}

// records writes the records and their lock files.
func (s *store) records(layers []layout.Layer, images []layout.Image) {
	writeRecords(s, layout.LayersFile, layout.LayersLock, layers)
	writeRecords(s, layout.ImagesFile, layout.ImagesLock, images)
}

func writeRecords[T any](s *store, file, lock string, list []T) {
	var text bytes.Buffer
	enc := layout.NewRecordEncoder(&text)
	for _, record := range list {
		if err := enc.Add(record); err != nil {
			panic(err)
		}
	}
	token, err := enc.Close()
	if err != nil {
		panic(err)
	}
	s.text(file, text.String())
	s.text(lock, string(token))
}

func manifestOf(config []byte, layers int) []byte {
	return encode(object{"config": object{"digest": digest.FromBytes(config)}, "layers": make([]object, layers)})
}

// document writes a document of the image, and lists it in the record.
func (s *store) document(key string, content []byte) {
	if s.image.BigDataDigests[key] == "" {
		s.image.BigDataNames = append(s.image.BigDataNames, key)
	}
	s.image.BigDataDigests[key], s.image.BigDataSizes[key] = digest.FromBytes(content), int64(len(content))
	s.text(layout.DocumentFile(s.image.ID, key), string(content))
}

func (s *store) text(name, text string) {
	s.MapFS[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o600}
}

func (s *store) mode(name string, mode fs.FileMode) {
	s.MapFS[name] = &fstest.MapFile{Mode: mode | 0o600, Data: []byte("/etc")}
}

func TestStore(t *testing.T) {
	s := valid()
	got, err := audit.Store(s.MapFS)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lock.Title() != "edge release 7" || len(got.Lock.Images) != 1 || len(got.Sets) != 1 || len(got.Token) != 64 ||
		got.Names[repository+":1"] != s.image.ID || len(got.Names) != 2 {
		t.Errorf("got %+v, want the lock, the set, the token and two names of the store", got)
	}
	if _, err := audit.Records(s.MapFS); err != nil {
		t.Errorf("Records: got %v, want no error", err)
	}
}

// A layer whose parents are all in the store, and one on a layer of another store that no image has.
func TestLower(t *testing.T) {
	s := valid()
	free := layout.Layer{UncompressedDigest: digest.FromString("free"), Parent: digest.FromString("other").Encoded()}
	free.ID = layout.LayerID(free.Parent, free.UncompressedDigest)
	third := layout.Layer{UncompressedDigest: digest.FromString("third"), Parent: top}
	third.ID = layout.LayerID(top, third.UncompressedDigest)
	for _, l := range []layout.Layer{free, third} {
		s.MapFS["overlay/"+l.ID+"/diff"] = s.MapFS["overlay/"+top+"/diff"]
		s.text("overlay/"+l.ID+"/link", layout.LinkName(l.ID))
		s.MapFS["overlay/l/"+layout.LinkName(l.ID)] = &fstest.MapFile{
			Mode: fs.ModeSymlink, Data: []byte("../" + l.ID + "/diff"),
		}
		s.text(layout.TarSplitFile(l.ID), "")
	}
	s.text("overlay/"+third.ID+"/lower", "l/"+layout.LinkName(top)+":l/"+layout.LinkName(below))
	s.text("overlay/"+third.ID+"/lower-layers", top+":"+below)
	s.text("overlay/"+free.ID+"/lower-layers", free.Parent+":"+top)
	s.delta.Needs = append(s.delta.Needs, pinset.Need{Layer: free.Parent, Link: layout.LinkName(free.Parent)})
	s.write()
	s.records([]layout.Layer{s.layer, free, third}, []layout.Image{s.image})
	link := "l/" + layout.LinkName(free.Parent)
	for lower, want := range map[string]error{
		link: nil, link + ":l/" + strings.Repeat("A", 26): nil, link + ":../../etc": audit.ErrInvalid,
		link + ":": audit.ErrInvalid, "": audit.ErrInvalid, "l/" + layout.LinkName(top): audit.ErrInvalid,
	} {
		s.text("overlay/"+free.ID+"/lower", lower)
		if _, err := audit.Store(s.MapFS); !errors.Is(err, want) {
			t.Errorf("lower %q: got %v, want %v", lower, err, want)
		}
	}
}

// breakage makes a store invalid.
type breakage struct {
	change func(s *store)
	// text is in the error.
	text string
	// records means that CRI-O could not list the images, so that Records refuses the store too.
	records bool
}

// other is a digest that nothing in the store has.
var other = digest.FromString("other")

func brokenDocuments() map[string]breakage {
	return map[string]breakage{
		"manifest with another content": {func(s *store) {
			s.text(layout.DocumentFile(s.image.ID, layout.ManifestData), "{}")
		}, `its document "manifest" has 2 bytes`, true},
		"configuration with another content": {func(s *store) {
			s.text(layout.DocumentFile(s.image.ID, layout.ConfigKey(s.image.ID)), strings.Repeat("x", len(s.config)))
		}, "its document", true},
		"document that is missing": {func(s *store) {
			delete(s.MapFS, layout.DocumentFile(s.image.ID, layout.ManifestData))
		}, "file does not exist", true},
		"document that is a FIFO": {func(s *store) {
			s.mode(layout.DocumentFile(s.image.ID, layout.ManifestData), fs.ModeNamedPipe)
		}, "a FIFO, want a file", true},
		"document that is too large": {func(s *store) {
			s.document("signature-"+other.Encoded(), make([]byte, 4<<20+1))
			s.write()
		}, "more than 4194304 bytes", true},
		"document that is no document": {func(s *store) {
			s.document("../x", []byte("x"))
			s.write()
		}, "no document of this image has this key", true},
		"document in no list": {func(s *store) {
			s.image.BigDataDigests["signatures"] = other
			s.write()
		}, "the names, sizes and digests of its documents differ", true},
		"manifest of another digest": {func(s *store) {
			s.image.Digest = other
			s.write()
		}, "no manifest with the digest", true},
		"manifest under another digest": {func(s *store) {
			s.document(layout.ManifestKey(other), s.manifest)
			s.write()
		}, "no document of this image has this key", true},
		"manifest that is none": {func(s *store) {
			s.image.Digest = digest.FromString("[]")
			s.document(layout.ManifestData, []byte("[]"))
			s.document(layout.ManifestKey(s.image.Digest), []byte("[]"))
			s.write()
		}, "cannot unmarshal", true},
		"manifest of another image": {func(s *store) {
			s.setManifest(manifestOf([]byte("{}"), 2))
		}, "the manifest of another image", true},
		"manifest that is an index too": {func(s *store) {
			s.setManifest([]byte(strings.Replace(string(s.manifest), "{", `{"manifests":[],`, 1)))
		}, "not the manifest of an image", true},
	}
}

func brokenImages() map[string]breakage {
	return map[string]breakage{
		"manifest with other layers": {func(s *store) {
			s.setManifest(manifestOf(s.config, 3))
		}, "its manifest has 3 layers, its configuration 2", true},
		"index of another image": {func(s *store) {
			index := encode(object{"manifests": []object{{"digest": other}}})
			s.document(layout.ManifestKey(digest.FromBytes(index)), index)
			s.write()
		}, "does not list its manifest", true},
		"top layer of another image": {func(s *store) {
			s.image.TopLayer = below
			s.write()
		}, "its top layer is " + top, true},
		"image without a configuration": {func(s *store) {
			s.image.BigDataNames = s.image.BigDataNames[1:]
			delete(s.image.BigDataDigests, layout.ConfigKey(s.image.ID))
			delete(s.image.BigDataSizes, layout.ConfigKey(s.image.ID))
			s.write()
		}, "it has no configuration", true},
		"image with two records": {func(s *store) {
			s.records([]layout.Layer{s.layer}, []layout.Image{s.image, s.image})
		}, "it has two records", true},
	}
}

func brokenNames() map[string]breakage {
	return map[string]breakage{
		"digest of another image in a name": {func(s *store) {
			s.image.Names[0] = "quay.io/ocp/release@" + other.String()
			s.write()
		}, "the digest is of no manifest or index of the image", true},
		"name of two images": {func(s *store) {
			s.image.Names = append(s.image.Names, repository+":1")
			s.write()
		}, "has it too", true},
		"name that is short": {func(s *store) {
			s.image.Names = append(s.image.Names, "nginx")
			s.write()
		}, "not the full name", true},
		"name that the lock does not list": {func(s *store) {
			s.image.Names = append(s.image.Names, "registry.k8s.io/pause:3.10")
			s.write()
		}, "has the name registry.k8s.io/pause:3.10, which the lock does not list", false},
		"name that only the lock lists": {func(s *store) {
			s.lock.Images[0].Tags = append(s.lock.Images[0].Tags, repository+":2")
			s.write()
		}, "lists " + repository + ":2 as a name of the image", false},
		"manifest that only the lock lists": {func(s *store) {
			s.lock.Images[0].Manifest = other
			s.write()
		}, "of no manifest or index of the image", false},
		"image that only the lock lists": {func(s *store) {
			s.lock.Images[0].Config = other
			s.write()
		}, "as a name of the image " + other.Encoded(), false},
	}
}

func brokenLayers() map[string]breakage {
	return map[string]breakage{
		"layer with the ID of another": {func(s *store) {
			s.layer.UncompressedDigest = other
			s.write()
		}, "does not match its content", true},
		"layer without a digest": {func(s *store) {
			s.layer.UncompressedDigest = ""
			s.write()
		}, "does not match its content", true},
		"layer with two records": {func(s *store) {
			s.records([]layout.Layer{s.layer, s.layer}, []layout.Image{s.image})
		}, "it has two records", true},
		"layer of no store": {func(s *store) {
			s.delta.Needs = nil
			s.write()
		}, "its records refer to the layer", false},
		"layer of both stores": {func(s *store) {
			s.delta.Needs = slices.Insert(s.delta.Needs, 0, pinset.Need{Layer: top, Link: layout.LinkName(top)}) // sorted
			s.write()
		}, "it needs the layer " + top + ", which it has", false},
		"needed layer with another link name": {func(s *store) {
			s.delta.Needs[0].Link = strings.Repeat("A", 26)
			s.write()
		}, "want " + layout.LinkName(below), false},
		"records with another token": {func(s *store) {
			s.text(layout.LayersLock, strings.Repeat("0", 64))
		}, "not the SHA-256 of overlay-layers/layers.json", false},
	}
}

func brokenFolders() map[string]breakage {
	return map[string]breakage{
		"diff that is a link": {func(s *store) {
			s.mode("overlay/"+top+"/diff", fs.ModeSymlink)
		}, "diff: a symbolic link, want a folder", false},
		"folder of a layer that is a link": {func(s *store) {
			for _, name := range []string{"diff", "link", "lower"} {
				delete(s.MapFS, "overlay/"+top+"/"+name)
			}
			s.mode("overlay/"+top, fs.ModeSymlink)
		}, "a symbolic link, want a folder", false},
		"link that is a FIFO": {func(s *store) {
			s.mode("overlay/"+top+"/link", fs.ModeNamedPipe)
		}, "link: a FIFO, want a file", false},
		"link of another layer": {func(s *store) {
			s.text("overlay/"+top+"/link", layout.LinkName(below))
		}, "want " + layout.LinkName(top), false},
		"lower of another layer": {func(s *store) {
			s.text("overlay/"+top+"/lower", "l/"+layout.LinkName(top))
		}, "lower: not the link names", false},
		"lower that goes on": {func(s *store) {
			s.text("overlay/"+top+"/lower", "l/"+layout.LinkName(below)+":../../../../etc")
		}, "lower: not the link names", false},
		"lower layers of another layer": {func(s *store) {
			s.text("overlay/"+top+"/lower-layers", top)
		}, "lower-layers: not the IDs", false},
		"lower layers that go on": {func(s *store) {
			s.text("overlay/"+top+"/lower-layers", below+":../../../../etc")
		}, "lower-layers: not the IDs", false},
		"lower layers that are missing": {func(s *store) {
			delete(s.MapFS, "overlay/"+top+"/lower-layers")
		}, "entries are missing", false},
		"lower that is missing": {func(s *store) {
			delete(s.MapFS, "overlay/"+top+"/lower")
		}, "1 of 4 entries are missing", false},
		"link name that leads elsewhere": {func(s *store) {
			s.MapFS["overlay/l/"+layout.LinkName(top)].Data = []byte("../../../etc")
		}, `a link to "../../../etc"`, false},
		"link name of no layer": {func(s *store) {
			s.mode("overlay/l/"+layout.LinkName(below), fs.ModeSymlink)
		}, "more than 1 entries", false},
		"tar-split that is a device": {func(s *store) {
			s.mode(layout.TarSplitFile(top), fs.ModeDevice)
		}, "a device or a socket, want a file", false},
	}
}

func brokenFiles() map[string]breakage {
	return map[string]breakage{
		"folder of no layer": {func(s *store) {
			s.mode("overlay/"+below, fs.ModeDir)
		}, "more than 2 entries", false},
		"folder of no image": {func(s *store) {
			s.mode("overlay-images/"+below, fs.ModeDir)
		}, "more than 3 entries", false},
		"document of no record": {func(s *store) {
			s.text("overlay-images/"+s.image.ID+"/x", "")
		}, "more than 4 entries", false},
		"volatile records": {func(s *store) {
			s.text(layout.VolatileLayersFile, "[]")
		}, "more than 3 entries", false},
		"containers":      {func(s *store) { s.text(layout.ContainersFile, "[]") }, "not a file of a store", false},
		"unknown file":    {func(s *store) { s.text("pinbox/.x", "") }, "not a file of a store", false},
		"link in files":   {func(s *store) { s.mode("pinbox/files/etc/x", fs.ModeSymlink) }, "a symbolic link", false},
		"socket in files": {func(s *store) { s.mode("pinbox/files/x", fs.ModeSocket) }, "a device or a socket", false},
		"device as the program": {func(s *store) {
			s.mode(layout.OwnProgram, fs.ModeDevice)
		}, "pinbox-node: a device or a socket, want a file", false},
	}
}

// Each damage or attack is an error that names it.
func TestInvalidStore(t *testing.T) {
	for _, table := range []map[string]breakage{
		brokenDocuments(), brokenImages(), brokenNames(), brokenLayers(), brokenFolders(), brokenFiles(),
	} {
		for name, c := range table {
			t.Run(name, func(t *testing.T) {
				s := valid()
				c.change(s)
				if _, err := audit.Store(s.MapFS); err == nil || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v, want %q", err, c.text)
				}
				if _, err := audit.Records(s.MapFS); (err != nil) != c.records {
					t.Errorf("Records: got %v, want an error: %v", err, c.records)
				}
			})
		}
	}
}

// setManifest replaces the manifest, under its own digest.
func (s *store) setManifest(content []byte) {
	s.image.Digest = digest.FromBytes(content)
	s.document(layout.ManifestData, content)
	s.document(layout.ManifestKey(s.image.Digest), content)
	s.write()
}

// The documents of images have a budget of their own, since they are not in memory together.
func TestBudgetOfDocuments(t *testing.T) {
	s := valid()
	large := make([]byte, 4<<20)
	for n := range 65 {
		s.document("signature-"+digest.FromString(fmt.Sprint(n)).Encoded(), large)
	}
	s.write()
	if _, err := audit.Records(s.MapFS); !errors.Is(err, layout.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

// All documents that are read to mount a store share one budget: names count as well as needs.
func TestRecordsShareOneBudget(t *testing.T) {
	for name, c := range map[string]struct {
		names, needs int
		want         error
	}{
		"names":    {60_000, 0, nil},
		"needs":    {0, 60_000, nil},
		"together": {160_000, layout.MaxStoreRecords - 160_000, layout.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := valid()
			for n := range c.names {
				s.image.Names = append(s.image.Names, fmt.Sprintf("%s:%d", repository, n+2))
			}
			for n := range c.needs {
				id := fmt.Sprintf("%064x", n)
				s.delta.Needs = append(s.delta.Needs, pinset.Need{Layer: id, Link: layout.LinkName(id)})
			}
			slices.SortFunc(s.delta.Needs, func(a, b pinset.Need) int { return strings.Compare(a.Layer, b.Layer) })
			s.write()
			if _, err := audit.Records(s.MapFS); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// An index lists a few manifests; the documents of one image could list millions.
func TestIndexThatListsTooMuch(t *testing.T) {
	s := valid()
	index := []byte(`{"manifests":[` + strings.Repeat("{},", layout.MaxListed) + `{}]}`)
	s.document(layout.ManifestKey(digest.FromBytes(index)), index)
	s.write()
	if _, err := audit.Records(s.MapFS); !errors.Is(err, audit.ErrInvalid) || !strings.Contains(err.Error(), "more than 10000") {
		t.Errorf("got %v, want %v and the limit", err, audit.ErrInvalid)
	}
}

func TestChain(t *testing.T) {
	var many []digest.Digest
	for range 501 {
		many = append(many, topDiff)
	}
	for name, c := range map[string]struct {
		config string
		want   int
	}{
		"two layers":      {string(valid().config), 2},
		"none":            {"{}", 0},
		"no JSON":         {"{", -1},
		"no digest":       {`{"rootfs":{"diff_ids":["sha256:aa"]}}`, -1},
		"another digest":  {`{"rootfs":{"diff_ids":["sha512:` + strings.Repeat("a", 128) + `"]}}`, -1},
		"too many layers": {string(encode(object{"rootfs": object{"diff_ids": many}})), -1},
	} {
		t.Run(name, func(t *testing.T) {
			chain, err := audit.Chain([]byte(c.config))
			if got := len(chain); (err != nil) != (c.want < 0) || err == nil && got != c.want {
				t.Errorf("got %d layers, %v, want %d", got, err, c.want)
			}
		})
	}
}

// Any text in a document or a record is refused, or is valid: never a panic.
func FuzzStore(f *testing.F) {
	names := []string{
		layout.ImagesFile, layout.LayersFile, layout.OwnDelta, layout.OwnLock, "overlay/" + top + "/lower",
		layout.DocumentFile(valid().image.ID, layout.ManifestData),
	}
	for n, name := range names {
		f.Add(n, valid().MapFS[name].Data)
	}
	f.Fuzz(func(t *testing.T, n int, text []byte) {
		s := valid()
		name := names[uint(n)%uint(len(names))]
		changed := !bytes.Equal(s.MapFS[name].Data, text)
		s.text(name, string(text))
		_, err := audit.Store(s.MapFS)
		document := strings.HasPrefix(name, layout.ImagesDir+"/"+s.image.ID) // its digest is in the record
		if (err == nil) == changed && (document || !changed) {
			t.Errorf("%s: got %v, changed: %v", name, err, changed)
		}
	})
}
