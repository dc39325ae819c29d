package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/pinbox/pinbox/runtime"
)

const (
	// settleTime is the time between the deletion of a set and the question whether its CustomResourceDefinition is
	// being removed: by then, the API server that answers has seen that, too.
	settleTime = time.Second
	// retryTime is how often a kubeconfig that cannot be read is read again. The kubelet writes its own at the first
	// boot.
	retryTime = 5 * time.Second
)

// Options of Follow.
type Options struct {
	// Kubeconfig is a file with the address of the API and credentials; or InCluster.
	Kubeconfig string
	// Node is the name of the node in the API.
	Node string
	// File of the document.
	File string
	// Jitter is the most by which the message of a change is delayed: the time is random, so that the nodes of a cluster
	// do not all ask a registry at once. With 0, reports are not delayed either.
	Jitter time.Duration
	// Statuses of the node are reported in its NodeImageStatus. nil is fine.
	Statuses <-chan runtime.Status
	// Condition means that the Node gets a condition, too.
	Condition bool
	// Operator means that the Machine Config Operator pins on the node: what it reports is followed, too.
	Operator bool
	Log      *slog.Logger
}

// follower keeps a document current. Its fields but uid and noted belong to the goroutine of run; others send
// it updates.
type follower struct {
	Options
	client  client
	known   Known
	refused string   // why what the API has is not taken
	deleted []string // sets whose deletion is to be confirmed
	updates chan func() (changed bool)
	changes chan struct{}
	problem string       // of the document, logged last
	uid     atomic.Value // string: that of the node, for the report
	synced  chan time.Time
	noted   sync.Map // the error of each kind of request that was logged last
	written Known    // last
	resumed bool     // the document was there before
}

// Follow keeps the document current until ctx ends. The channel receives a value some time after it has changed.
func Follow(ctx context.Context, o Options) (<-chan struct{}, error) {
	o.Node = strings.ToLower(o.Node) // as the kubelet registers a node
	f := &follower{
		Options: o, updates: make(chan func() bool), changes: make(chan struct{}, 1), synced: make(chan time.Time, 1),
	}
	var err error
	if f.known, err = Read(o.File); err == nil {
		f.resumed = true
	} else {
		if !errors.Is(err, fs.ErrNotExist) {
			o.Log.Warn("what was known of the cluster is lost", "error", err)
		}
		f.known = Known{Version: KnownVersion, Roles: []string{}, Sets: []Set{}}
		f.known.failed("the API has not answered yet", time.Now())
		// From now on, a pass knows that there are sets.
		if err := f.known.write(o.File); err != nil {
			return nil, err
		}
	}
	go f.run(ctx)
	return f.changes, nil
}

// run applies updates, and confirms deletions.
func (f *follower) run(ctx context.Context) {
	go f.connect(ctx)
	settled := time.NewTimer(settleTime)
	for {
		select {
		case <-ctx.Done():
			return
		case update := <-f.updates:
			state, deleted := f.known.State, slices.Clone(f.deleted)
			changed := update()
			if f.known.synced(time.Now()) {
				changed = true
				f.synced <- f.known.FirstSync // once, so it does not wait
			}
			if f.known.State != state {
				f.Log.Info("cluster", "state", f.known.State, "reason", f.known.Reason)
			}
			if changed || f.known.State != state {
				f.save()
			}
			if len(f.deleted) > 0 && !slices.Equal(f.deleted, deleted) {
				settled.Reset(settleTime)
			}
		case <-settled.C:
			if len(f.deleted) > 0 && f.confirm(ctx) {
				f.save()
			} else if len(f.deleted) > 0 {
				settled.Reset(retryTime)
			}
		}
	}
}

// save writes the document, and reports the change.
func (f *follower) save() {
	problem := ""
	err := f.known.write(f.File)
	if errors.Is(err, errTooLarge) { // the sets stay as they were, and the document says so
		f.written.failed(err.Error(), time.Now())
		err = errors.Join(err, f.written.write(f.File))
	} else if err == nil {
		f.written = f.known
		f.written.Sets = slices.Clone(f.known.Sets)
	}
	if err != nil {
		problem = err.Error()
	}
	if problem != f.problem && problem != "" {
		f.Log.Error("the sets of the cluster could not be written", "error", problem)
	}
	f.problem = problem
	var wait time.Duration
	if f.Jitter > 0 {
		wait = rand.N(f.Jitter)
	}
	time.AfterFunc(wait, func() {
		select {
		case f.changes <- struct{}{}:
		default:
		}
	})
}

// confirm removes the sets that were deleted, unless they were deleted since the API ceases to serve sets. It reports
// whether that is known.
func (f *follower) confirm(ctx context.Context) bool {
	served, err := f.client.served(ctx)
	switch {
	case err != nil:
		return false
	case !served:
		f.known.lost("the CustomResourceDefinition of the sets is being removed", time.Now())
	default:
		for _, name := range f.deleted {
			f.known.remove(name)
		}
	}
	f.deleted = nil
	return true
}

// update sends an update to run.
func (f *follower) update(ctx context.Context, u func() (changed bool)) {
	select {
	case f.updates <- u:
	case <-ctx.Done():
	}
}

// connect follows the sets and the node, as soon as there is a kubeconfig.
func (f *follower) connect(ctx context.Context) {
	for {
		c, err := dial(f.Kubeconfig)
		if err == nil {
			f.update(ctx, func() bool { f.client = c; return false })
			go f.followNode(ctx, c)
			go f.report(ctx, c)
			if f.Operator {
				go f.followOperator(ctx, c)
			}
			f.followSets(ctx, c)
			return
		}
		f.update(ctx, func() bool { f.known.failed(err.Error(), time.Now()); return false })
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryTime):
		}
	}
}

// followSets follows the sets.
func (f *follower) followSets(ctx context.Context, c client) {
	replicate(ctx, &source{
		list: func(ctx context.Context, o metav1.ListOptions) (list kruntime.Object, err error) {
			err = c.eachVersion(func(r dynamic.ResourceInterface) (err error) { list, err = r.List(ctx, o); return err })
			return list, err
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (w watch.Interface, err error) {
			err = c.eachVersion(func(r dynamic.ResourceInterface) (err error) { w, err = r.Watch(ctx, o); return err })
			return w, err
		},
		answered: func(err error) { f.update(ctx, func() bool { f.answered(err); return false }) },
	}, &unstructured.Unstructured{}, store{
		list: func(objects []any, version string) {
			f.update(ctx, func() bool { return f.listed(objects, version) })
		},
		put:    func(o any) { f.update(ctx, func() bool { return f.put(o) }) },
		remove: func(o any) { f.update(ctx, func() bool { return f.removed(o) }) },
		seen:   func(version string) { f.update(ctx, func() bool { f.known.ResourceVersion = version; return false }) },
	})
}

// answered takes the result of a request for sets.
func (f *follower) answered(err error) {
	switch now := time.Now(); {
	case err == nil && f.refused != "":
		f.known.failed(f.refused, now)
	case err == nil:
		f.known.answered(now)
	case apierrors.IsNotFound(err):
		f.known.lost("the API serves no PinnedImageSets", now)
	default:
		f.known.failed(err.Error(), now)
	}
}

// listed takes a list of sets. One that is not as the API's rules have it stays as it was known: it may be of another
// pool.
func (f *follower) listed(objects []any, version string) bool {
	var sets []Set
	if len(objects) > MaxSets {
		f.refused = fmt.Sprintf("%d sets, more than %d", len(objects), MaxSets) // until another list is taken
		f.known.failed(f.refused, time.Now())
		return false
	}
	f.known.Refused = nil
	for _, o := range objects {
		u := o.(*unstructured.Unstructured) // the type of the source
		s, err := object(u)
		if err != nil {
			f.keep(u.GetName(), err)
			if i := f.known.find(u.GetName()); i >= 0 {
				sets = append(sets, f.known.Sets[i])
			}
			continue
		}
		sets = append(sets, s)
	}
	if f.refused != "" {
		f.refused = ""
		f.known.answered(time.Now())
	}
	f.deleted = f.known.list(sets, version, time.Now())
	return true
}

// put takes a set that was created or changed.
func (f *follower) put(o any) bool {
	u := o.(*unstructured.Unstructured)
	s, err := object(u)
	f.forget(u.GetName())
	if err != nil {
		f.keep(u.GetName(), err)
		return true
	}
	f.known.put(s)
	f.known.ResourceVersion = s.ResourceVersion
	return true
}

// keep notes why a set of the API is not taken.
func (f *follower) keep(name string, err error) {
	f.known.Refused = append(f.known.Refused, refusal(name)+printable(err.Error()))
}

func refusal(name string) string { return printable(name) + ": " }

// removed takes the deletion of a set, which is to be confirmed.
func (f *follower) removed(o any) bool {
	name := o.(*unstructured.Unstructured).GetName()
	f.forget(name)
	f.deleted = append(f.deleted, name)
	return false
}

// forget cancels the confirmation of a deletion, and forgets why the set was not taken.
func (f *follower) forget(name string) {
	f.deleted = slices.DeleteFunc(f.deleted, func(d string) bool { return d == name })
	f.known.Refused = slices.DeleteFunc(f.known.Refused, func(text string) bool {
		return strings.HasPrefix(text, refusal(name))
	})
}
