package neighbour

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// counter counts what runs at once: of all, and of each address.
type counter struct {
	most, mostOfOne int

	mu  sync.Mutex
	all int
	of  map[string]int
}

func newCounter(most, mostOfOne int) *counter {
	return &counter{most: most, mostOfOne: mostOfOne, of: map[string]int{}}
}

// begin reports whether one more may run; not if more than others do already, unless others is negative. The caller
// then calls end.
func (c *counter) begin(address string, others int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.most || c.of[address] >= c.mostOfOne || others >= 0 && c.all > others {
		return false
	}
	c.all++
	c.of[address]++
	return true
}

func (c *counter) end(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[address]--; c.of[address] == 0 {
		delete(c.of, address)
	}
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// host is the address of a connection without its port.
func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}

// bounded is a listener that closes connections beyond its limits at once.
type bounded struct {
	net.Listener
	counter *counter
}

func newBounded(l net.Listener, most, mostOfOne int) net.Listener {
	return &bounded{l, newCounter(most, mostOfOne)}
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := host(c.RemoteAddr().String())
		if b.counter.begin(address, -1) {
			return &counted{Conn: c, end: sync.OnceFunc(func() { b.counter.end(address) })}, nil
		}
		_ = c.Close() // nothing was written
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	end func()
}

func (c *counted) Close() error {
	c.end()
	return c.Conn.Close()
}

// ReadFrom lets the kernel copy from a file to the connection.
func (c *counted) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// pace delays uploads so that all together have a rate.
type pace struct {
	rate int64 // bytes a second; 0 is any number

	mu   sync.Mutex
	next time.Time // when the next bytes may be sent
}

func (p *pace) wait(ctx context.Context, bytes int64) error {
	if p.rate <= 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	if pause == 0 {
		return nil
	}
	return sleep(ctx, pause)
}
