package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/watch"
	"github.com/pinbox/pinbox/storage/pinset"
)

const (
	// answerTime is how long CRI-O has to answer that it runs. It answers from memory.
	answerTime = 5 * time.Second
	// baseInterval is the time between two looks for a base that is missing.
	baseInterval = time.Second
	// statusInterval is the time between two reads of the status of another process.
	statusInterval = 200 * time.Millisecond
)

// Attach adds a store to the node, and makes its release current. ApplySets pins its images.
func (n *Node) Attach(ctx context.Context, a stores.AttachOptions) (stores.Attached, error) {
	m, err := n.manager()
	if err != nil {
		return stores.Attached{}, err
	}
	m.DryRun = n.s.DryRun
	if len(a.Mirrors) > 0 && !fetch.Is(a.Source) {
		return stores.Attached{}, fmt.Errorf("%s: %w", a.Source, ErrMirrors)
	}
	if m.DryRun && fetch.Is(a.Source) {
		return stores.Attached{}, fmt.Errorf("%s: %w", a.Source, ErrRemoteDryRun)
	}
	client, err := cri.Dial(n.conf.Socket)
	if err != nil {
		return stores.Attached{}, err
	}
	defer client.Close()
	a.Node = attaching{n, client}
	if _, answers := n.version(ctx, client); answers {
		if a.GraphRoots, err = client.GraphRoots(ctx); err != nil {
			return stores.Attached{}, err
		}
	}
	if m.DryRun {
		return m.Attach(ctx, a)
	}
	progress := composing{file: n.composingFile(), next: a.Progress}
	defer progress.end()
	a.Progress = &progress
	if fetch.Is(a.Source) {
		return n.attachRemote(ctx, m, a)
	}
	return n.attach(ctx, m, a)
}

// Probe returns why Attach would refuse a store, as far as that is known before all of it is read or fetched. It
// changes nothing, and needs neither CRI-O nor a node that was set up. note is told why a server takes longer.
func (n *Node) Probe(ctx context.Context, source string, note func(line string)) error {
	m, err := n.manager()
	if err != nil {
		return err
	}
	if !fetch.Is(source) {
		return m.Probe(source)
	}
	how, err := n.fetching(m)
	if err != nil {
		return err
	}
	how.Note = note
	_, err = fetch.Find(ctx, []string{source}, how)
	return err
}

// attaching is the node of an attach.
type attaching struct {
	node   *Node
	client *cri.Client
}

// Fits implements stores.Node.
func (a attaching) Fits(bytes int64) error { return a.node.fits(bytes) }

// List implements stores.Node.
func (a attaching) List(ctx context.Context) error {
	if _, answers := a.node.version(ctx, a.client); !answers {
		return nil
	}
	_, err := a.client.List(ctx)
	return err
}

// version is that of CRI-O, if it answers. Without it, a store is attached and checked less: it may be what CRI-O needs
// to start.
func (n *Node) version(ctx context.Context, client *cri.Client) (version string, answers bool) {
	if !listens(n.conf.Socket) {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, version, err := client.Version(ctx)
	return version, err == nil
}

// attach waits for the base of a store that udev attaches: of two media that are in drives at boot,
// the one with the base may be found second. The store is copied again once its base is there.
func (n *Node) attach(ctx context.Context, m stores.Manager, a stores.AttachOptions) (stores.Attached, error) {
	for deadline, tries := time.Now().Add(n.s.Wait), 1; ; tries++ {
		attached, err := m.Attach(ctx, a)
		var noBase *stores.NoBaseError
		if !a.Auto || !errors.As(err, &noBase) {
			return attached, err
		}
		if tries == 1 {
			n.s.Waiting(err)
		}
		for !noBase.Resolved() {
			if time.Now().After(deadline) {
				return attached, err
			}
			select {
			case <-ctx.Done():
				return attached, ctx.Err()
			case <-time.After(baseInterval):
			}
		}
	}
}

// Rollback makes the release before the current one current. ApplySets pins its images.
func (n *Node) Rollback(ctx context.Context, to string) (stores.Release, error) {
	m, err := n.manager()
	if err != nil {
		return stores.Release{}, err
	}
	return m.Rollback(ctx, to)
}

// Plan is a release that would become current.
type Plan struct {
	Release stores.Release
	// Pinned are the images of its sets that the current sets lack, and Unpinned those that only the current ones have:
	// they stay pinned if they are of a store.
	Pinned, Unpinned []pinset.Image
}

// PlanRollback returns what Rollback would do, or its error. It changes nothing.
func (n *Node) PlanRollback(ctx context.Context, to string) (Plan, error) {
	m, err := n.manager()
	if err != nil {
		return Plan{}, err
	}
	r, err := m.PlanRollback(ctx, to)
	if err != nil {
		return Plan{}, err
	}
	return n.PlanRelease(r)
}

// PlanRelease compares the sets of a release with the current ones.
func (n *Node) PlanRelease(r stores.Release) (Plan, error) {
	p := Plan{Release: r}
	var next []pinset.Set
	for _, name := range slices.Sorted(maps.Keys(r.Sets)) {
		sets, _, err := pinset.DecodeSets(strings.NewReader(r.Sets[name]), name)
		if err != nil {
			return p, err
		}
		next = append(next, sets...)
	}
	current, err := n.folderSets()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	before, after := pinset.Union(current...), pinset.Union(watch.ForPools(next, n.poolNames())...)
	p.Pinned, p.Unpinned = notIn(before, after), notIn(after, before)
	return p, err
}

// notIn returns those of some images that are not among others.
func notIn(others, images []pinset.Image) []pinset.Image {
	return slices.DeleteFunc(slices.Clone(images), func(img pinset.Image) bool { return slices.Contains(others, img) })
}

// ApplySets pins the images of the current sets. It makes a pass, or waits for another process that
// already makes one. That process may end without having read these sets; ApplySets then makes the
// pass itself.
func (n *Node) ApplySets(ctx context.Context) (runtime.Status, error) {
	if previous, err := statusFile(n.conf.Status).load(); err == nil {
		n = n.withPools(previous)
	}
	said := false
	for deadline := time.Now().Add(n.s.Wait); ; {
		r, end, err := n.lockedReconciler(ctx, 0)
		if err == nil {
			defer end()
			return r.Pass(ctx)
		}
		if !errors.Is(err, ErrBusy) {
			return runtime.Status{}, err
		}
		status, err := n.Status(ctx)
		if err != nil || status.Healthy() || time.Now().After(deadline) {
			return status, err
		}
		if !said {
			n.s.Waiting(ErrBusy)
			said = true
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-time.After(statusInterval):
		}
	}
}
