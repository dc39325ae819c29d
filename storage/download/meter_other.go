//go:build !linux

package download

import "net"

// received returns 0: nothing is counted here.
func received(net.Conn) uint64 { return 0 }
