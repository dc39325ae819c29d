package lint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Finding is one problem at one position.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Rule is the short name of the problem: docs/build.md lists them.
	Rule    string `json:"rule"`
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// String is FILE:LINE: MESSAGE: FIX.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Message, f.Fix)
}

// Check returns the problems of the objects, sorted by file and line. With a lock, the images must
// be in it; the zero lock is no lock.
func Check(objects source.Objects, lock pinset.Lock) []Finding {
	l := linter{store: newStore(lock)}
	for _, use := range objects.Uses {
		l.use(use)
	}
	for _, set := range objects.Sets {
		l.set(set)
	}
	for _, p := range objects.Possible {
		l.possible(p)
	}
	for _, u := range objects.Unread {
		l.add(u.At, "not-read", "give the images in it with --image", "%s", u)
	}
	for _, k := range objects.Kubelets {
		l.kubelet(k)
	}
	for _, at := range objects.AlwaysPull {
		l.add(at, "always-pull-images", "leave it out",
			"the admission plugin AlwaysPullImages sets Always in each pod of the API%s", offline("IMAGE"))
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	// In JSON of one line the same image often occurs twice.
	return slices.Compact(l.findings)
}

// linter collects findings.
type linter struct {
	store    store
	findings []Finding
}

func (l *linter) add(at source.Field, rule, fix, format string, args ...any) {
	l.findings = append(l.findings, Finding{at.File, at.Line, rule, fmt.Sprintf(format, args...), fix})
}

// use checks an image of a pod.
func (l *linter) use(use source.Use) {
	name, policy, write := use.Image.Text, use.Policy.Text, "write "+use.PolicyName+": IfNotPresent"
	ref, short, err := pinset.Expand(name)
	switch {
	case policy == "Always":
		l.add(use.Policy, "pull-always", write,
			"%s Always contacts the registry at every start, even if the node has the image%s",
			use.PolicyName, offline(cmp.Or(name, "IMAGE")))
	case policy != "" && policy != "IfNotPresent" && policy != "Never":
		l.add(use.Policy, "pull-unknown", write, "%s %q is not a policy of Kubernetes", use.PolicyName, policy)
	case use.Puller == source.Importer:
		l.add(use.Image, "pull-always", "write pullMethod: node",
			"the importer pod of CDI pulls %s from the registry itself, even if the node has the image", name)
	case use.Puller == source.ImportCron:
		l.add(use.Image, "pull-always", "write a DataVolume with pullMethod: node",
			"a DataImportCron pulls %s from the registry on its schedule, with any pullMethod", name)
	case use.Puller == source.OLM && err == nil && ref.Digest == "":
		l.add(use.Image, "pull-always", "name it by digest",
			"the pod of the catalog pulls %s from the registry at every start, as it is a tag", name)
	case use.PolicyName != "" && policy == "" && err == nil && ref.Tag == "latest":
		l.add(use.Image, "latest", write, "%s of %s defaults to Always, as the tag is latest", use.PolicyName, name)
	}
	if use.Volume && err == nil && !l.store.volume(ref) {
		l.add(use.Image, "image-volume", "build the appliance with spec.node.imageVolumes: copy and with this manifest "+
			"as a source, and name its lock with --lock",
			"CRI-O mounts no image volume out of a read-only store: pods with %s fail with \"layer not known\"", name)
	}
	switch {
	case name == "": // set by something else
	case use.Expression:
		l.add(use.Image, "expression", "name the image itself",
			"%s is substituted when the object runs, and may be any image",
			name)
	case err != nil:
		l.add(use.Image, "bad-name", "write it as registry/path@sha256:…", "%v", err)
	case short:
		l.add(use.Image, "short-name", l.fullName(ref), "%s does not name its registry, and CRI-O may ask several", name)
	default:
		l.reference(use.Image, ref)
	}
}

// offline describes the events of a pod that contacts a registry which does not answer: EnsureImageExists in
// pkg/kubelet/images/image_manager.go of Kubernetes.
func offline(image string) string {
	return fmt.Sprintf("; without one: Failed to pull image %q, and Error: ImagePullBackOff", image)
}

// possible checks that the node has what may be an image.
func (l *linter) possible(p source.Possible) {
	if !l.store.has(p.Reference) {
		l.add(p.Image, "possible-image",
			"if a node pulls it, add it to the appliance with --image, and name the lock with --lock",
			"%s in %s of %s may be an image, which --possible-images of `pinbox build` decides",
			p.Reference, p.Path, p.Object)
	}
}

// reference checks that the node has an image with a full name.
func (l *linter) reference(at source.Field, ref pinset.Reference) {
	switch {
	case l.store.locked && !l.store.has(ref):
		l.add(at, "not-in-lock", l.store.fix(ref), "the lock has no %s", ref)
	case !l.store.locked && ref.Digest == "":
		l.add(at, "tag", "name it by digest, or name the lock that has the tag with --lock",
			"%s is a tag, which a node has only if its store was made with it", ref)
	}
}

// fullName is the fix for a short name.
func (l *linter) fullName(ref pinset.Reference) string {
	switch others := l.store.paths[ref.Repository]; {
	case !l.store.locked && ref.Digest == "":
		return fmt.Sprintf("write the full name with a digest, as %s@sha256:…", ref.Repository)
	case !l.store.locked || l.store.has(ref):
		return fmt.Sprintf("write the full name, %s if that is it", ref)
	case len(others) == 1:
		return fmt.Sprintf("write the full name, %s if that is it", others[0])
	}
	return "write the full name, and add the image to the appliance"
}

// set checks a PinnedImageSet: whether the cluster's API accepts it, and whether the store has
// every image under exactly the name of the pin.
func (l *linter) set(raw source.RawSet) {
	if !pinset.ValidName(raw.Name.Text) {
		l.add(raw.Name, "set-name", "use only lower-case letters, digits, - and .",
			"the cluster's API refuses metadata.name %q of a set", raw.Name.Text)
	}
	if len(raw.Images) == 0 {
		l.add(raw.List, "set-size", "list at least one image under spec.pinnedImages, or leave the set out",
			"set %q has no images", raw.Name.Text)
	}
	set, places := pinset.Set{Name: raw.Name.Text}, map[pinset.Image]source.Field{}
	for _, field := range raw.Images {
		img, err := pinset.ParseImage(field.Text)
		if err != nil {
			l.badPin(field, err)
			continue
		}
		if _, ok := places[img]; ok {
			set.Duplicates = append(set.Duplicates, img)
		} else {
			set.Images = append(set.Images, img)
		}
		places[img] = field
		if l.store.locked && !l.store.pins[img] {
			l.add(field, "not-in-lock", l.store.fix(pinset.Reference{Repository: img.Repository, Digest: img.Digest}),
				"the lock has no %s", img)
		}
	}
	for _, o := range set.Violations() {
		l.add(cmp.Or(places[o.Image], raw.List), o.Rule, setFix(o.Rule), "%s", o.Text)
	}
}

// badPin reports why CRI-O finds no image of a name in the store.
func (l *linter) badPin(at source.Field, err error) {
	ref, _, badName := pinset.Expand(at.Text)
	pin := ref.Repository + "@sha256:…"
	if locked, ok := l.store.tags[ref.TagName()]; ok {
		pin = locked.String()
	} else if ref.Digest != "" {
		pin = pinset.Image{Repository: ref.Repository, Digest: ref.Digest}.String()
	}
	switch {
	case badName != nil:
		l.add(at, "bad-name", "write it as registry/path@sha256:…", "%v", err)
	case errors.Is(err, pinset.ErrShortName):
		l.add(at, "short-name", "write "+pin, "%s is not a full name, and CRI-O pins only full names", at.Text)
	case ref.Digest != "":
		l.add(at, "tag-and-digest", "write "+pin, "%s has a tag and a digest, and CRI-O does not pin such a name", at.Text)
	default:
		l.add(at, "tag", "write "+pin, "%s is a tag, and a set takes only digests", at.Text)
	}
}

// setFix is the fix for an objection of the cluster's API to a set.
func setFix(rule string) string {
	switch rule {
	case "set-size":
		return "split the set"
	case "set-twice":
		return "leave it out here"
	}
	return "copy the image to a name that the API accepts, or pass the set to pinbox-node, which accepts it"
}

// kubelet checks the configuration of a kubelet: whether it starts with it, and whether pods may then use images
// of stores without a registry (KEP-2535).
func (l *linter) kubelet(k source.KubeletPolicy) {
	const list = "preloadedImagesVerificationAllowlist"
	c := kubelet.Config{Policy: kubelet.Policy(k.Policy.Text)}
	for _, allowed := range k.Allowed {
		c.Allowed = append(c.Allowed, allowed.Text)
		if err := kubelet.CheckPattern(allowed.Text); err != nil {
			l.add(allowed, "kubelet-start", "write registry/path or registry/path/*",
				"the kubelet does not start: %s: %v", list, err)
		}
	}
	var images []string
	for img := range l.store.pins {
		images = append(images, img.String())
	}
	slices.Sort(images)
	const cure = "write NeverVerifyPreloadedImages, or what kubelet-allowlist.conf of the appliance has"
	switch refused := slices.DeleteFunc(images, func(img string) bool { return !c.Verifies(img, false) }); {
	case len(k.Allowed) > 0 && c.Policy != kubelet.PolicyAllowlist:
		l.add(cmp.Or(k.Policy, k.Allowed[0]), "kubelet-start", "write "+string(kubelet.PolicyAllowlist),
			"the kubelet does not start: %s goes only with the policy %s", list, kubelet.PolicyAllowlist)
	case c.Policy == kubelet.PolicyAlways:
		l.add(k.Policy, "kubelet-verify", cure,
			"with %s the kubelet asks a registry before a pod may use an image of a store%s", c.Policy, offline("IMAGE"))
	case len(refused) > 0:
		l.add(k.Policy, "kubelet-verify", cure, "%s lacks the repositories of %d images of the lock, such as %s%s", list,
			len(refused), refused[0], offline(refused[0]))
	}
}

// Missing are the images of something in a cluster that a store does not have.
type Missing struct {
	source.Live
	// Images are full names, sorted.
	Images []string `json:"images"`
}

// MissingInCluster groups the images that the lock does not have by the namespace and the owner of the objects which
// name them, for objects that a cluster has printed.
func MissingInCluster(objects source.Objects, lock pinset.Lock) (all []Missing) {
	s, images := newStore(lock), map[source.Live][]string{}
	add := func(of source.Live, ref pinset.Reference) {
		if of != (source.Live{}) && !s.has(ref) && !slices.Contains(images[of], ref.String()) {
			images[of] = append(images[of], ref.String())
		}
	}
	for _, use := range objects.Uses {
		if ref, _, err := pinset.Expand(use.Image.Text); err == nil && !use.Expression {
			add(use.From, ref)
		}
	}
	for _, p := range objects.Possible {
		add(p.From, p.Reference)
	}
	for of, names := range images {
		slices.Sort(names)
		all = append(all, Missing{of, names})
	}
	slices.SortFunc(all, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Owner, b.Owner))
	})
	return all
}
