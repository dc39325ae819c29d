package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pinbox/pinbox/builder/source"
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
			"%s in %s of %s may be an image, which --possible-images decides", p.Reference, p.Path, p.Object)
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
