package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// report is what a pass has observed and done. The status is made from it.
type report struct {
	nodeState
	owner Owner
	node  string
	pools []string
	// pending means that no pass has tried yet, or that the Machine Config Operator has to pin.
	pending bool
	// reloadDue means that CRI-O has yet to read the drop-in.
	reloadDue bool
	// faults of images, and errors of other things.
	faults   map[pinset.Image]Fault
	problems []error
	// releases that the node keeps, and stores that were attached.
	releases []ReleaseStatus
	stores   []StoreStatus
	// own is how the appliance's own store is verified; nil if it is not mounted.
	own *VerityStatus
	// program says which pinbox-node runs; nil if that is unknown.
	program *ProgramStatus
	// cluster is what is known of the sets of the cluster; nil if the node follows none.
	cluster *ClusterStatus
	// pulls that were planned, and the running ones.
	pulls    []Pull
	running  map[pinset.Image]bool
	progress *Progress
	// working means that the pass has not ended.
	working bool
	// tries to attach the stores that sets name.
	tries map[string]storeTry
	// before is the status when the pass began.
	before Status
	// done is the number of images that this pass has pulled.
	done int
	// wanted are images that pods wanted, and that the node did not have then.
	wanted []wanted.Image
	// configured are warnings of the configuration.
	configured []string
	// totals of this pass and the earlier ones.
	totals Totals
}

// publish makes a status of the report, and publishes it.
func (p *pass) publish() error {
	rep := p.rep
	rep.space = measure(p.conf.Disk, rep.graphRoot)
	p.r.previous = rep.status(p.r.previous, time.Now())
	return p.r.publish()
}

// publish publishes the last status, and tells the service manager its summary.
func (r *Reconciler) publish() error {
	s := r.previous
	if r.service != nil {
		line := s.Summary()
		if reason := s.Reason(); reason != "" && s.Degraded() {
			line += "; " + reason
		}
		r.service.SetStatus(line)
	}
	if err := r.Node.Publish(s); err != nil {
		return fmt.Errorf("publish the status: %w", err)
	}
	return nil
}

// newReport begins a report; errs are problems so far, or nil.
func newReport(o Options, errs ...error) report {
	return report{
		owner: o.Owner, node: o.Node, pools: o.Pools, problems: errs,
		faults: map[pinset.Image]Fault{}, running: map[pinset.Image]bool{},
	}
}

// status makes the status. Generations and times continue from the previous one.
func (r report) status(previous Status, now time.Time) Status {
	s := Status{
		Version: StatusVersion, Time: now.UTC(), Node: r.node, Runtime: r.version, Owner: r.owner, Pools: r.pools,
		Images: r.images(), Progress: r.progress, Unpinned: r.unpinned, LatePulls: r.latePulls,
		ReloadDue: r.reloadDue, Releases: r.releases, Stores: r.stores, OwnStore: r.own, Program: r.program,
		Cluster:     r.cluster,
		StoreImages: r.storeImages(), Space: r.nodeState.space, Totals: r.totals,
		Warnings: append(r.warnings(), r.configured...),
		SetAside: r.asideImages(), Wanted: r.missed(now),
	}
	if r.present == nil { // the images could not be listed
		s.Unpinned, s.LatePulls = previous.Unpinned, previous.LatePulls
	}
	r.problems = slices.DeleteFunc(r.problems, func(err error) bool { return err == nil })
	s.Sets = r.setStatus(previous, s.Images)
	for _, problem := range append(r.problems, r.folderError()) {
		if problem != nil {
			s.Errors = append(s.Errors, strings.Split(problem.Error(), "\n")...)
		}
	}
	s.Errors = unique(s.Errors)
	hideSecrets(&s) // everybody on the node may read it
	s.Conditions = r.conditions(previous, s, now.UTC())
	if s.Healthy() {
		s.Totals.LastSuccess = s.Time
	}
	return s
}

// warnings are of the image that CRI-O needs for each pod, by exactly the name that its configuration has.
func (n nodeState) warnings() []string {
	if _, present := n.present[n.pause]; present || n.pause == "" || n.present == nil {
		return nil
	}
	return []string{fmt.Sprintf("the image %s is not on the node by this name, and CRI-O needs it for each pod "+
		"(pause_image): without a registry no pod starts; put it into a set, with this tag", n.pause)}
}

// missed are the images that pods wanted, and that neither the node nor its sets have. Without the one that CRI-O needs
// for each pod, all of them wait.
func (r report) missed(now time.Time) []wanted.Image {
	images := r.wanted
	pause := wanted.FullName(r.pause)
	named := slices.ContainsFunc(images, func(img wanted.Image) bool { return img.Name == pause })
	if len(r.warnings()) > 0 && pause != "" && !named {
		images = append(slices.Clone(images), wanted.Image{Name: pause, Since: now.UTC(), Last: now.UTC()})
	}
	return wanted.Missed(images, func(name string) bool {
		_, present := r.present[name]
		return present || slices.ContainsFunc(r.want, func(img pinset.Image) bool { return img.String() == name })
	}, now)
}

// hideSecrets cuts what URLs have besides a place in the errors of others: CRI-O's, of registries, and of servers.
func hideSecrets(s *Status) {
	for i, text := range s.Errors {
		s.Errors[i] = fault.HideSecrets(text)
	}
	for i, img := range s.Images {
		s.Images[i].Error = fault.HideSecrets(img.Error)
	}
	for i, set := range s.Sets {
		s.Sets[i].LastFailedGenerationError = fault.HideSecrets(set.LastFailedGenerationError)
		s.Sets[i].StoreError = fault.HideSecrets(set.StoreError)
	}
}

// unique removes repeated lines.
func unique(lines []string) (once []string) {
	for _, line := range lines {
		if !slices.Contains(once, line) {
			once = append(once, line)
		}
	}
	return once
}

// folderError is the error of reading the sets, without those of single files, which have a SetStatus
// of their own.
func (r report) folderError() error {
	return errors.Join(slices.DeleteFunc(flatten(r.broken), func(err error) bool {
		var file *pinset.FileError
		return errors.As(err, &file)
	})...)
}

func (r report) images() []ImageStatus {
	sets := map[pinset.Image][]string{}
	for _, set := range r.sets {
		for _, img := range set.Images {
			sets[img] = append(sets[img], set.Name)
		}
	}
	fetch := map[pinset.Image]int64{}
	for _, p := range r.pulls {
		fetch[p.Image] = p.Fetch
	}
	images := []ImageStatus{}
	for _, img := range r.want {
		i := ImageStatus{Name: img.String(), State: r.state(img), Sets: sets[img]}
		if i.State == Missing || i.State == Pulling {
			i.Bytes = fetch[img]
		}
		if f, ok := r.faults[img]; ok && i.State != Pinned {
			i.ErrorClass, i.Error = f.Class, f.Text
		}
		images = append(images, i)
	}
	return images
}

func (r report) state(img pinset.Image) State {
	pinned, present := r.present[img.String()]
	switch {
	case r.present == nil:
		return Unknown
	case pinned:
		return Pinned
	case present:
		return Present
	case r.running[img]:
		return Pulling
	}
	return Missing
}

func (r report) setStatus(previous Status, images []ImageStatus) []SetStatus {
	byName := map[string]ImageStatus{}
	for _, i := range images {
		byName[i.Name] = i
	}
	all := []SetStatus{}
	for _, set := range r.sets {
		before := previous.set(set.Name)
		s := SetStatus{
			Name: set.Name, Images: len(set.Images), Store: set.Store, StoreError: r.storeError(set, before),
		}
		var failures []string
		unknown := false
		for _, img := range set.Images {
			i := byName[img.String()]
			switch i.State {
			case Pinned:
				s.Pinned++
			case Missing, Pulling:
				s.Missing++
				failures = append(failures, i.describe("is not on the node"))
			case Unknown:
				unknown = true
			default:
				failures = append(failures, i.describe("is not pinned"))
			}
		}
		if unknown { // the reason is among the errors
			failures = append(failures, "the images of the node could not be listed")
		}
		all = append(all, r.generations(s, set.Revision(), failures, before))
	}
	return append(all, r.brokenSets(previous)...)
}

// describe returns what is wrong with an image: its error, or the given text if it has none.
func (i ImageStatus) describe(what string) string {
	if i.Error != "" {
		return fmt.Sprintf("%s: %s: %s", i.Name, i.ErrorClass, i.Error)
	}
	return i.Name + " " + what
}

// generations continues from the previous status of the set.
func (r report) generations(s SetStatus, revision string, failures []string, before SetStatus) SetStatus {
	s.DesiredGeneration = revision
	s.CurrentGeneration = before.CurrentGeneration
	switch {
	case len(failures) == 0:
		s.CurrentGeneration = revision
	case r.pending:
	case !r.working:
		for _, problem := range r.problems {
			failures = append([]string{problem.Error()}, failures...)
		}
		s.LastFailedGeneration = revision
		s.LastFailedGenerationError = truncate(strings.Join(failures, "; "))
	case before.LastFailedGeneration == revision:
		s.LastFailedGeneration, s.LastFailedGenerationError = revision, before.LastFailedGenerationError
	}
	return s
}

func truncate(s string) string { return s[:min(len(s), maxErrorBytes)] }

// brokenSets are the files that cannot be read as sets.
func (r report) brokenSets(previous Status) []SetStatus {
	var all []SetStatus
	for _, err := range flatten(r.broken) {
		var file *pinset.FileError
		if errors.As(err, &file) {
			all = append(all, SetStatus{
				Name: file.File, CurrentGeneration: previous.set(file.File).CurrentGeneration, DesiredGeneration: file.Revision,
				LastFailedGeneration: file.Revision, LastFailedGenerationError: truncate(file.Err.Error()),
			})
		}
	}
	return all
}

// flatten returns the errors that were joined.
func flatten(err error) (all []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, flatten(err)...)
		}
		return all
	}
	return []error{err}
}

// conditions are never Progressing and Degraded at once. While a pass only retries what has
// failed before, the node stays Degraded, so that the condition does not change with every
// attempt.
func (r report) conditions(previous Status, s Status, now time.Time) []Condition {
	const complete = "All pinned image sets complete"
	p := Condition{Type: ProgressingCondition, Status: "False", Reason: asExpected, Message: complete}
	d := Condition{Type: DegradedCondition, Status: "False", Reason: asExpected, Message: "All is good"}
	switch {
	case r.pending:
		p.Reason, p.Message = pending, "The sets have changed since the last pass"
		if r.owner == MCO {
			p.Message = "The Machine Config Operator has not pinned all images yet"
		}
	case r.working && !r.onlyRetries():
		p.Status, p.Reason, p.Message = "True", imagePrefetch, "node is prefetching images: "+r.node
	case r.working || !r.healthy(s):
		p.Reason, p.Message = prefetchFailed, "Not all pinned image sets are complete"
		d.Status, d.Reason = "True", prefetchFailed
		d.Message = "One or more PinnedImageSet is experiencing an error. See PinnedImageSet list for more details."
	}
	if d.Status == "True" && errors.Is(r.broken, ErrNoSets) {
		d.Reason, d.Message = NoSets, ErrNoSets.Error()
	}
	all := []Condition{p, d}
	for i, c := range all {
		all[i].LastTransitionTime = now
		for _, old := range previous.Conditions {
			// After the clock was set back, a time in the future is not known any more.
			if old.Type == c.Type && old.Status == c.Status && !old.LastTransitionTime.IsZero() &&
				!old.LastTransitionTime.After(now) {
				all[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return all
}

func (r report) healthy(s Status) bool {
	notPinned := func(i ImageStatus) bool { return i.State != Pinned }
	return r.broken == nil && len(s.Errors) == 0 && !slices.ContainsFunc(s.Images, notPinned)
}

func (r report) onlyRetries() bool {
	if !r.before.Degraded() || r.done > 0 {
		return false
	}
	for _, p := range r.pulls {
		if before, ok := r.before.image(p.Image.String()); !ok || before.Error == "" || before.ErrorClass == Space {
			return false
		}
	}
	for _, set := range r.sets {
		before := r.before.set(set.Name)
		if before.LastFailedGeneration != set.Revision() && before.CurrentGeneration != set.Revision() {
			return false
		}
	}
	return true
}

// continueFrom adds the errors of the last pass for images that are still missing, and the progress
// of a pass that still runs.
func (r report) continueFrom(previous Status, busy bool) report {
	r.faults, r.running = map[pinset.Image]Fault{}, map[pinset.Image]bool{}
	if r.program != nil && previous.Program != nil { // that of the command which asks is another one
		r.program.Running = previous.Program.Running
	}
	for _, img := range r.want {
		before, ok := previous.image(img.String())
		if !ok {
			continue
		}
		if before.Error != "" {
			r.faults[img] = Fault{before.ErrorClass, before.Error}
		}
		r.running[img] = busy && before.State == Pulling
		r.pulls = append(r.pulls, Pull{Image: img, Need: Need{Fetch: before.Bytes}})
	}
	if busy {
		r.progress, r.working = previous.Progress, previous.is(ProgressingCondition)
	}
	r.pending = !busy && r.owner == Pinbox && r.present != nil && r.broken == nil && r.setsChanged(previous)
	if len(r.missing()) > 0 && !r.working && !r.pending {
		for _, text := range previous.Errors {
			r.problems = append(r.problems, errors.New(text))
		}
	}
	return r
}

// setsChanged reports that the drop-in lacks pins of the sets. Images of stores do not count: a pass
// that is due anyway follows a store that was attached or detached.
func (r report) setsChanged(previous Status) bool {
	if r.dropInCurrent() {
		return false
	}
	ofStores := map[string]bool{}
	for _, img := range append(previous.StoreImages, r.storeImages()...) {
		for _, name := range img.Names {
			ofStores[name] = true
		}
	}
	removed := func(img pinset.Image) bool { return !slices.Contains(r.want, img) && !ofStores[img.String()] }
	return !r.exact || len(without(r.want, r.current)) > 0 || slices.ContainsFunc(r.current, removed)
}

// image finds the status of an image.
func (s Status) image(name string) (ImageStatus, bool) {
	i := slices.IndexFunc(s.Images, func(i ImageStatus) bool { return i.Name == name })
	if i < 0 {
		return ImageStatus{}, false
	}
	return s.Images[i], true
}

// set finds the status of a set.
func (s Status) set(name string) SetStatus {
	i := slices.IndexFunc(s.Sets, func(set SetStatus) bool { return set.Name == name })
	if i < 0 {
		return SetStatus{}
	}
	return s.Sets[i]
}
