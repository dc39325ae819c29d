package neighbour

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"
)

const (
	// resolveAgain is how long the addresses of names count: nodes come and go.
	resolveAgain = 30 * time.Second
	resolveTime  = 5 * time.Second
)

// resolve finds the addresses of the neighbours, without those of this node. A name that cannot be resolved stands for
// no neighbour.
func (d *Download) resolve(ctx context.Context) error {
	if !d.resolved.IsZero() && time.Since(d.resolved) < resolveAgain {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	var all []string
	for _, name := range d.Neighbours {
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			host, port = name, DefaultPort
		}
		found, _ := net.DefaultResolver.LookupHost(limited, host)
		for _, address := range found {
			all = append(all, net.JoinHostPort(address, port))
		}
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(a string) bool { return slices.Contains(d.Self, a) })
	// The first in the order are the likeliest to ask the source, so all nodes know these.
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(rankOf(a, d.id), rankOf(b, d.id)) })
	d.names, d.resolved = all, time.Now()
	return ctx.Err()
}
