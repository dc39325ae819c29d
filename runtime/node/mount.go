package node

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/systemd"
)

// Mount mounts the attached stores that are intact and have their base, before CRI-O starts. A
// compacted store replaces the others, and the appliance's own store is unmounted if CRI-O could not
// start with it. Stores are mounted even if the configuration of the node
// cannot be read; that error is returned with them.
func (n *Node) Mount(ctx context.Context) ([]runtime.StoreStatus, error) {
	m, configErr := n.manager()
	m.Unconfigured = configErr != nil
	starts := sync.OnceValue(func() bool { return stopped(ctx, n.conf.Socket) })
	all, err := m.Reconcile(ctx, starts)
	return storeStatuses(all), errors.Join(configErr, err, n.linkArtifacts(), n.mend(ctx, starts()))
}

// stopped reports whether CRI-O neither runs nor starts.
func stopped(ctx context.Context, socket string) bool {
	return !listens(socket) && (!systemd.Running() || !systemd.HasProcess(ctx, crio.Unit))
}

// listens reports whether a process listens on a socket.
func listens(socket string) bool {
	conn, err := net.Dial("unix", strings.TrimPrefix(socket, "unix://"))
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}
