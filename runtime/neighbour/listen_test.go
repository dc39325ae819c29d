package neighbour_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/neighbour"
)

// A server listens at the addresses of its interface only, and follows them when they change.
func TestAddressesOfTheInterface(t *testing.T) {
	fixtures.NeedRoot(t)
	inNetwork(t, func(ip func(args string), do func(func())) {
		ip("link add inside type veth peer name outside")
		ip("address add 10.9.0.1/24 dev inside")
		ip("address add 10.8.0.1/24 dev outside")
		ip("link set lo up")
		ip("link set inside up")
		ip("link set outside up")
		s := &neighbour.Server{Dir: t.TempDir() + "/stores.d", Look: 20 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go do(func() { done <- s.ServeOn(ctx, "inside", "9751") })
		want := func(what string, addresses ...string) {
			t.Helper()
			waitFor(t, what, func() bool { return slices.Equal(neighbour.Serving(s.Dir), addresses) })
		}
		want("first address", "10.9.0.1:9751")
		ip("address add 10.9.0.2/24 dev inside")
		want("second address", "10.9.0.1:9751", "10.9.0.2:9751")
		ip("address del 10.9.0.1/24 dev inside")
		ip("address add fd00::1/64 dev inside nodad")
		want("change of addresses", "[fd00::1]:9751")
		asked := make(chan error)
		go do(func() {
			c, err := net.Dial("tcp", "10.8.0.1:9751")
			if err == nil {
				_ = c.Close()
			}
			asked <- err
		})
		if err := <-asked; !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("at the address of another interface: got %v, want %v", err, unix.ECONNREFUSED)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v at the end, want no error", err)
		}
		if got := neighbour.Serving(s.Dir); len(got) > 0 {
			t.Errorf("got %v after the end, want no addresses", got)
		}
	})
}

// A server with no interface, or with one whose port is taken, does not start.
func TestServerThatCannotListen(t *testing.T) {
	s := &neighbour.Server{Dir: t.TempDir() + "/stores.d"}
	for _, name := range []string{"", "none0", "0.0.0.0", "../lo"} {
		if err := s.ServeOn(t.Context(), name, "9751"); !errors.Is(err, neighbour.ErrInterface) {
			t.Errorf("%q: got %v, want %v", name, err, neighbour.ErrInterface)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	if err := s.ServeOn(t.Context(), "lo", port); !errors.Is(err, neighbour.ErrListen) {
		t.Errorf("got %v, want %v", err, neighbour.ErrListen)
	}
}

// inNetwork calls f in a network namespace of its own. ip runs ip(8) there, and do calls a function there.
func inNetwork(t *testing.T, f func(ip func(args string), do func(func()))) {
	t.Helper()
	ready, end, ended := make(chan int), make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		goruntime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("got %v, want a network namespace", err)
			close(ready)
			return
		}
		ready <- unix.Gettid()
		<-end
	}()
	thread, ok := <-ready
	if !ok {
		return
	}
	path := fmt.Sprintf("/proc/self/task/%d/ns/net", thread)
	do := func(f func()) {
		goruntime.LockOSThread()
		ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(ns, unix.CLONE_NEWNET)
		}
		if err != nil {
			t.Errorf("got %v, want the network namespace", err)
			return
		}
		defer func() { _ = unix.Close(ns) }() // it was only entered
		f()
	}
	ip := func(args string) {
		t.Helper()
		done := make(chan error)
		go do(func() {
			out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("ip %s: %w: %s", args, err, out)
			}
			done <- err
		})
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	f(ip, do)
	close(end)
	<-ended
}
