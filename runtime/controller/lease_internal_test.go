package controller

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// memory is an API with one Lease. A real API server cannot be silent to one controller only.
type memory struct {
	mu      sync.Mutex
	lease   *unstructured.Unstructured
	version int
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (m *memory) store(obj *unstructured.Unstructured) *unstructured.Unstructured {
	m.version++
	m.lease = obj.DeepCopy()
	m.lease.SetResourceVersion(strconv.Itoa(m.version))
	return m.lease.DeepCopy()
}

// view is the API as one controller sees it. It does not answer while it is cut.
type view struct {
	dynamic.ResourceInterface
	*memory
	cut bool
}

func (v *view) answer(
	ctx context.Context, do func() (*unstructured.Unstructured, error),
) (*unstructured.Unstructured, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut {
		v.mu.Unlock()
		<-ctx.Done()
		v.mu.Lock()
		return nil, ctx.Err()
	}
	return do()
}

func (v *view) Get(
	ctx context.Context, name string, _ metav1.GetOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	return v.answer(ctx, func() (*unstructured.Unstructured, error) {
		if v.lease == nil {
			return nil, apierrors.NewNotFound(leases, name)
		}
		return v.lease.DeepCopy(), nil
	})
}

func (v *view) Create(
	ctx context.Context, obj *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	return v.answer(ctx, func() (*unstructured.Unstructured, error) {
		if v.lease != nil {
			return nil, apierrors.NewAlreadyExists(leases, obj.GetName())
		}
		return v.store(obj), nil
	})
}

func (v *view) Update(
	ctx context.Context, obj *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	return v.answer(ctx, func() (*unstructured.Unstructured, error) {
		if v.lease == nil || v.lease.GetResourceVersion() != obj.GetResourceVersion() {
			return nil, apierrors.NewConflict(leases, obj.GetName(), errors.New("changed"))
		}
		return v.store(obj), nil
	})
}

// contest are two controllers, and who leads.
type contest struct {
	t     *testing.T
	m     memory
	views [2]*view
	stops [2]context.CancelFunc
	mu    sync.Mutex
	who   string // of those who lead: "", "0", "1", or both
}

// start starts a controller.
func (c *contest) start(i int) {
	ctx, stop := context.WithCancel(c.t.Context())
	c.views[i], c.stops[i] = &view{memory: &c.m}, stop
	l := &lease{api: c.views[i], identity: strconv.Itoa(i), duration: 15 * time.Second, log: slog.New(slog.DiscardHandler)}
	go l.hold(ctx, func(ctx context.Context) {
		c.set(l.identity)
		<-ctx.Done()
		c.set("")
	})
}

func (c *contest) set(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if who != "" && c.who != "" {
		c.t.Errorf("got %s and %s leading, want one", c.who, who)
	}
	c.who = who
}

// after waits, and then wants a controller to lead; "" is none.
func (c *contest) after(d time.Duration, want, when string) {
	c.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.who != want {
		c.t.Errorf("%s: got %q leading, want %q", when, c.who, want)
	}
}

// One controller leads. The other one takes the Lease of 15 s at once if it is released, and otherwise when it has not
// been renewed for so long; the first one has then ceased to lead.
func TestOneControllerLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &contest{t: t}
		c.start(0)
		c.after(time.Second, "0", "alone")
		c.start(1)
		c.after(time.Hour, "0", "after an hour")

		c.stops[0]()
		c.after(2*time.Second, "1", "when the first one has ended")
		c.start(0)
		c.after(time.Minute, "1", "when it is back")

		c.m.mu.Lock()
		c.views[1].cut = true
		c.m.mu.Unlock()
		c.after(11*time.Second, "", "when the API is silent to who leads")
		c.after(8*time.Second, "0", "when the Lease has expired")

		c.m.mu.Lock()
		c.views[1].cut = false
		c.m.mu.Unlock()
		c.after(time.Minute, "0", "when the API answers again")

		c.stops[0]()
		c.stops[1]()
		synctest.Wait()
	})
}
