package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// minWatch is the least time until a watch ends by itself; the most is twice as long, and the time between is random.
const minWatch = 30 * time.Minute

// The time between a request that failed and the next one. A node makes two requests in 5 to 10 seconds while the API
// is away; its kubelet makes one in 10 seconds (nodeStatusUpdateFrequency), and one for each kind of object.
const (
	firstRetry = 800 * time.Millisecond // client-go's
	lastRetry  = 5 * time.Second
)

// source lists and watches objects. Each watch begins with a list: after etcd was restored from a backup, a watch from
// a later resource version would receive nothing, and end with no error.
type source struct {
	// only is the name of the one object that is followed; "" for all.
	only  string
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// answered receives the result of each request.
	answered func(error)
	listed   atomic.Bool // and not watched since
}

// ListWithContext lists all objects at once, as of now: a list of the API server's cache may be older than what the
// node knew before.
func (s *source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit = "", "", 0
	list, err := s.list(ctx, s.options(o))
	s.answered(err)
	s.listed.Store(err == nil)
	return list, err
}

// WatchWithContext watches once after a list.
func (s *source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if !s.listed.Swap(false) {
		return nil, apierrors.NewResourceExpired("listed before each watch")
	}
	w, err := s.watch(ctx, s.options(o))
	s.answered(err)
	return w, err
}

func (s *source) options(o metav1.ListOptions) metav1.ListOptions {
	if s.only != "" {
		o.FieldSelector = "metadata.name=" + s.only
	}
	return o
}

// List and Watch are what a cache.ListerWatcher has beside these.
func (s *source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without a context.
func (s *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// IsWatchListSemanticsUnSupported makes the reflector list by lists.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// replicate keeps a store equal to what a source has, until ctx ends. A request that failed is repeated after at least
// firstRetry and at most twice lastRetry, at random, and not before the Retry-After of an answer 429.
func replicate(ctx context.Context, s *source, kind runtime.Object, store cache.ReflectorStore) {
	quiet := logr.Discard() // who follows the cluster logs what matters
	r := cache.NewReflectorWithOptions(s, kind, store, cache.ReflectorOptions{
		Name: "pinbox-node", Logger: &quiet, MinWatchTimeout: minWatch,
		Backoff: &wait.Backoff{Duration: firstRetry, Cap: lastRetry, Steps: 10, Factor: 2, Jitter: 1},
	})
	r.RunWithContext(klog.NewContext(ctx, quiet))
}

// store passes what a reflector receives to functions.
type store struct {
	put func(any)
	// list, remove and seen may be nil: then each object of a list is put, and one that is gone stays.
	list   func(objects []any, resourceVersion string)
	remove func(any)
	seen   func(resourceVersion string)
}

var _ cache.ResourceVersionUpdater = store{} // a reflector asks for it

// Replace takes a list.
func (s store) Replace(objects []any, resourceVersion string) error {
	if s.list != nil {
		s.list(objects, resourceVersion)
		return nil
	}
	for _, o := range objects {
		s.put(o)
	}
	return nil
}

// Add takes an object that was created.
func (s store) Add(o any) error { s.put(o); return nil }

// Update takes an object that was changed.
func (s store) Update(o any) error { s.put(o); return nil }

// Delete takes an object that was deleted.
func (s store) Delete(o any) error {
	if s.remove != nil {
		s.remove(o)
	}
	return nil
}

// UpdateResourceVersion takes the resource version of an event or a bookmark.
func (s store) UpdateResourceVersion(resourceVersion string) {
	if s.seen != nil {
		s.seen(resourceVersion)
	}
}

// Resync does nothing.
func (store) Resync() error { return nil }
