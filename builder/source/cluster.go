package source

import (
	"fmt"
	"maps"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ForCluster changes the content for a cluster of OpenShift. An object without the label of a pool belongs to no pool
// there, so each pool gets a copy. Releases bring their operating system, unless their source says that they do not.
func (c *Content) ForCluster(pools []string) {
	for i := range c.Named {
		c.Named[i].inPools(pools)
	}
	for i := range c.Local {
		c.Local[i].inPools(pools)
	}
	for i := range c.Releases {
		r := &c.Releases[i]
		r.inPools(pools)
		if r.MachineOS == nil {
			yes := true
			r.MachineOS = &yes
		}
	}
	var sets []pinset.Set
	for _, set := range c.Sets {
		if set.Labels[pinset.RoleLabel] != "" {
			sets = append(sets, set)
			continue
		}
		var names []string
		for _, pool := range pools {
			each := set
			each.Name, each.Labels = set.Name+"-"+pool, maps.Clone(set.Labels)
			if each.Labels == nil {
				each.Labels = map[string]string{}
			}
			each.Labels[pinset.RoleLabel] = pool
			sets, names = append(sets, each), append(names, each.Name)
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: set %q has no label %s and so belongs to no pool of OpenShift: "+
			"the appliance has %s instead", set.Origin, set.Name, pinset.RoleLabel, strings.Join(names, ", ")))
	}
	c.Sets = sets
}

// inPools assigns images to a set for each pool, if they are for no pool.
func (g *Group) inPools(pools []string) {
	if len(g.Pools) == 0 {
		g.Pools = pools
	}
}
