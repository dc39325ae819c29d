package download

import (
	"crypto/tls"
	"net"
	"runtime/metrics"
	"sync"
)

// meter counts what a connection receives for a request. The library shows nothing of an answer before it has read the
// whole of it; the kernel counts the bytes of each connection.
type meter struct {
	mu     sync.Mutex
	conn   net.Conn
	before uint64
}

// begin is called with the connection of each request.
func (m *meter) begin(conn net.Conn) {
	for wrapped, ok := conn.(*tls.Conn); ok; wrapped, ok = conn.(*tls.Conn) {
		conn = wrapped.NetConn()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn, m.before = conn, received(conn)
}

// read returns how many bytes have come since begin, those of TLS and headers included; 0 if the system does not say.
func (m *meter) read() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(received(m.conn), m.before) - m.before
}

// heap returns how many bytes of the heap are in use, garbage included.
func heap() uint64 {
	live := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
