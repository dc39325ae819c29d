package source

import (
	"slices"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Kind of sources: a row of the table from which the appliance file, its schema, the flags and the
// documentation are made.
type Kind struct {
	// Key in an element of spec.sources.
	Key string
	// Doc describes the kind in one sentence.
	Doc string
	// Example is an element of a list in the appliance file; "" for a mapping, whose fields have their own.
	Example string
	// New makes an empty source, to be filled in from YAML or flags.
	New func() Source
	// Flags of the command line that fill in a source.
	Flags []Flag
	// SourcePerValue makes a source of every value of a flag.
	SourcePerValue bool
}

// Flag of the command line that fills in a source.
type Flag struct {
	Name string
	// Value is the placeholder of the flag's value in a help text: FILE, DIR, PATH (of either) or
	// NAME.
	Value string
	// Doc describes the flag in one sentence; if "", the Doc of the kind does.
	Doc string
	// Set puts a value of the flag into a source of the kind.
	Set func(s Source, value string)
	// SingleValue is for flags of which the last value is used, and "" means none.
	SingleValue bool
	// Objects are the kinds of Kubernetes objects in files for the flag.
	Objects []string
}

// Kinds is the table of all kinds of sources, in the order of the documentation.
func Kinds() []Kind {
	return []Kind{
		{
			Key: "pinnedImageSets", Doc: "PinnedImageSet objects, in files or in folders of files", Example: "sets/",
			New:   func() Source { return &PinnedImageSets{} },
			Flags: []Flag{{Name: "set", Value: "PATH", Set: set((*PinnedImageSets).add), Objects: []string{pinset.Kind}}},
		},
		{
			Key: "images", Doc: "images by their full names, with a digest or a tag", Example: "quay.io/site/app:1.2",
			New:   func() Source { return &Images{} },
			Flags: []Flag{{Name: "image", Value: "NAME", Set: set((*Images).add)}},
		},
		{
			Key:     "imageLists",
			Doc:     "files of names: one a line, JSON of MicroShift, kubeadm, crictl or podman, or Images of Hauler",
			Example: "images.txt",
			New:     func() Source { return &ImageLists{} },
			Flags:   []Flag{{Name: "image-list", Value: "FILE", Set: set((*ImageLists).add), Objects: []string{"Images"}}},
		},
		{
			Key: "manifests", Example: "rendered/", New: func() Source { return &Manifests{} },
			Doc: "Kubernetes objects that name the images, in files or in folders of files",
			Flags: []Flag{
				{Name: "manifests", Value: "PATH", Set: set((*Manifests).add), Objects: []string{"Pod", "Deployment"}},
				{
					Name: "possible-images", Value: "NAME", SingleValue: true,
					Doc: "names in --manifests that may be images: list them in a warning (the default), take, refuse or ignore them",
					Set: set(func(m *Manifests, v string) { m.Possible = PossibleImages(v) }),
				},
			},
		},
		{
			Key: "release", Doc: "an OpenShift release, by its pull spec",
			New: func() Source { return &Release{} },
			Flags: []Flag{{
				Name: "release", Value: "NAME", SingleValue: true,
				Set: set(func(r *Release, v string) { r.Image = v }),
			}},
		},
		{
			Key: "ocMirror", Doc: "output of oc-mirror v2: archives, folders of them, workspaces, its cache, mapping.txt",
			New:   func() Source { return &OCMirror{} },
			Flags: ocMirrorFlags(),
		},
		{
			Key: "oci", Doc: "folders of the OCI image layout, each with a name if its image has no full one",
			New:   func() Source { return &OCI{} },
			Flags: []Flag{{Name: "oci", Value: "DIR[=NAME]", Set: set((*OCI).add)}},
		},
		{
			Key:   "archives",
			Doc:   "archives of podman save or skopeo copy (OCI or Docker), each with a name if its image has no full one",
			New:   func() Source { return &Archives{} },
			Flags: []Flag{{Name: "archive", Value: "FILE[=NAME]", Set: set((*Archives).add)}},
		},
		{
			Key: "containersStorage", Doc: "images of podman's or CRI-O's store on this machine, by their names there",
			New: func() Source { return &ContainersStorage{} },
			Flags: []Flag{{
				Name: "containers-storage", Value: "NAME", Set: set((*ContainersStorage).set),
				Doc: "images of podman's or CRI-O's store here, by their names there; [overlay@DIR]NAME is one of another store",
			}},
			SourcePerValue: true,
		},
		{
			Key: "wanted", Example: "reports/", New: func() Source { return &Wanted{} },
			Doc: "reports of nodes, in files or in folders of files: the images that pods wanted and the nodes did not have",
			Flags: []Flag{{
				Name: "wanted", Value: "PATH", Set: set((*Wanted).add), Objects: []string{fleet.Kind},
			}},
		},
	}
}

func ocMirrorFlags() []Flag {
	return []Flag{
		{Name: "oc-mirror", Value: "PATH", Set: set(func(m *OCMirror, v string) { m.Paths = append(m.Paths, v) })},
		{
			Name: "image-set-config", Value: "FILE", SingleValue: true, Objects: []string{"ImageSetConfiguration"},
			Doc: "an ImageSetConfiguration of oc-mirror v2, alone or instead of the one in --oc-mirror",
			Set: set(func(m *OCMirror, v string) { m.Config = v }),
		},
		{
			Name: "oc-mirror-exclude", Value: "NAME",
			Doc: "images of --oc-mirror to leave out: a name, a repository, or a pattern with * and ?",
			Set: set(func(m *OCMirror, v string) { m.Exclude = append(m.Exclude, v) }),
		},
	}
}

// set adapts a function for one type of source. The table calls it with no other type.
func set[S Source](fill func(s S, value string)) func(Source, string) {
	return func(s Source, value string) { fill(s.(S), value) }
}

func keys() (all []string) {
	for _, k := range Kinds() {
		all = append(all, k.Key)
	}
	return all
}

// FlagNames lists all flags with their dashes, in the order of the table.
func FlagNames() (all []string) {
	for _, k := range Kinds() {
		for _, f := range k.Flags {
			all = append(all, "--"+f.Name)
		}
	}
	return all
}

// FlagFor finds the flag for files with objects of a kind, "" if there is none.
func FlagFor(object string) string {
	for _, k := range Kinds() {
		for _, f := range k.Flags {
			if slices.Contains(f.Objects, object) {
				return "--" + f.Name
			}
		}
	}
	return ""
}

// FromFlags makes sources of the values of flags, by the names of the flags.
func FromFlags(values map[string][]string) (all []Entry) {
	for _, k := range Kinds() {
		var s Source
		for _, f := range k.Flags {
			for _, value := range values[f.Name] {
				if s == nil || k.SourcePerValue {
					s = k.New()
					all = append(all, Entry{Source: s})
				}
				f.Set(s, value)
			}
		}
	}
	return all
}
