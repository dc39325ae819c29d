package neighbour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Why a node offers nothing.
var (
	ErrInterface = errors.New("there is no such network interface")
	ErrListen    = errors.New("the node cannot listen on the interface")
)

// servingFile is the file with the addresses at which this node offers its files. It is next to the folder of the
// stores, in which the server writes nothing.
func servingFile(dir string) string {
	return filepath.Join(filepath.Dir(dir), "serving", "addresses.json")
}

// ServeOn offers the files at the addresses of a network interface and no others, until ctx ends. The addresses may
// change meanwhile; without any, it waits for one.
func (s *Server) ServeOn(ctx context.Context, name, port string) error {
	s.prepare()
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	listeners := map[string]net.Listener{}
	defer func() {
		_ = os.Remove(servingFile(s.Dir)) // it does not harm
	}()
	failed := make(chan error, 1)
	for first := true; ; first = false {
		addresses, err := addressesOf(name)
		if err != nil && first {
			return err
		}
		if changed, err := s.listen(ctx, name, port, addresses, listeners, &work, failed); err != nil {
			return err
		} else if changed || first {
			s.Log.Info("files are offered to neighbours", "interface", name, "addresses", addressList(listeners))
			if err := writeServing(s.Dir, addressList(listeners)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-time.After(or(s.Look, 5*time.Second)):
		}
	}
}

// listen makes the listeners match the addresses.
func (s *Server) listen(
	ctx context.Context, name, port string, addresses []string, listeners map[string]net.Listener,
	work *sync.WaitGroup, failed chan<- error,
) (changed bool, err error) {
	for address, l := range listeners {
		if !slices.Contains(addresses, address) {
			_ = l.Close()
			delete(listeners, address)
			changed = true
		}
	}
	for _, address := range addresses {
		if listeners[address] != nil {
			continue
		}
		l, err := listenOn(ctx, name, net.JoinHostPort(address, port))
		if errors.Is(err, unix.EADDRNOTAVAIL) { // an IPv6 address that is not usable yet, or one that has gone
			continue
		}
		if err != nil {
			return changed, err
		}
		listeners[address], changed = l, true
		work.Go(func() {
			if err := s.Serve(ctx, l); err != nil && !errors.Is(err, net.ErrClosed) {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	return changed, nil
}

// listenOn listens at an address of an interface. The kernel also drops what comes to that address through another one.
func listenOn(ctx context.Context, name, address string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var bound error
		err := c.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), name) })
		return errors.Join(err, bound)
	}}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w: %w", name, address, ErrListen, err)
	}
	return l, nil
}

// addressesOf returns the addresses of an interface, without those that are valid on one link only.
func addressesOf(name string) (all []string, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrInterface, err)
	}
	found, err := i.Addrs()
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			all = append(all, prefix.Addr().String())
		}
	}
	slices.Sort(all)
	return all, err
}

func addressList(listeners map[string]net.Listener) (all []string) {
	for _, l := range listeners {
		all = append(all, l.Addr().String())
	}
	slices.Sort(all)
	return all
}

func writeServing(dir string, addresses []string) error {
	text, err := json.Marshal(addresses)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(servingFile(dir)), 0o700)
	}
	if err == nil {
		_, err = atomicfile.Write(servingFile(dir), text, 0o600)
	}
	return err
}

// Serving returns the addresses at which this node offers the files in the folder dir of its stores; none if it does
// not.
func Serving(dir string) (addresses []string) {
	text, err := os.ReadFile(servingFile(dir))
	if err == nil {
		_ = json.Unmarshal(text, &addresses) // without them, this node is the last in the order
	}
	return addresses
}
