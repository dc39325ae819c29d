package download

import (
	"net"

	"golang.org/x/sys/unix"
)

// received returns how many bytes a connection has received; 0 if it is closed or not of TCP.
func received(conn net.Conn) uint64 {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	var bytes uint64
	_ = raw.Control(func(fd uintptr) { // it is closed
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			bytes = info.Bytes_received // tcpi_bytes_received of linux/tcp.h, since Linux 4.1
		}
	})
	return bytes
}
