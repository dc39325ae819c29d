package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// roleLabel is the prefix of the labels that give a node its roles: well known in Kubernetes.
const roleLabel = "node-role.kubernetes.io/"

// Names of roles and of the pools for them. kubeadm writes control-plane, and OpenShift master.
const (
	master       = "master"
	controlPlane = "control-plane"
	worker       = "worker"
)

// Roles are the roles of a node with these labels, sorted.
func Roles(labels map[string]string) []string {
	roles := []string{}
	for label := range labels {
		if role, ok := strings.CutPrefix(label, roleLabel); ok && role != "" {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return roles
}

// Pools are the pools of a node with these roles, as GetPoolsForNode has them in pkg/helpers/helpers.go of the Machine
// Config Operator: a pool of a user's own and, with its role, that of the workers; or that of the control plane. In
// plain Kubernetes, where workers need no role, a node without one is a worker, and one may have several roles of a
// user's own. On a managed node, that is an error.
func Pools(roles []string, managed bool) ([]string, error) {
	var control, own []string
	for _, role := range roles {
		switch role {
		case master, controlPlane:
			control = []string{master, controlPlane}
		case worker:
		default:
			own = append(own, role)
		}
	}
	switch {
	case managed && len(own) > 1:
		return nil, fmt.Errorf("the node has %d roles besides worker and master: %s; it can have one", len(own),
			strings.Join(own, ", "))
	case len(own) == 0 && control != nil:
		return control, nil
	case len(own) == 0:
		return []string{worker}, nil
	case control != nil && managed: // the operator ignores the other pool
		own = control
	default:
		own = append(own, control...)
	}
	if slices.Contains(roles, worker) {
		own = append(own, worker)
	}
	return own, nil
}

// Choose returns the sets that count for a node of these pools: those with the role label of one of them and, on a node
// that is not managed, those without the label. On a managed node these belong to no pool: noPool has their names.
func Choose(sets []pinset.Set, pools []string, managed bool) (chosen []pinset.Set, noPool []string) {
	for _, set := range sets {
		role, labelled := set.Labels[pinset.RoleLabel]
		switch {
		case labelled && slices.Contains(pools, role), !labelled && !managed:
			chosen = append(chosen, set)
		case !labelled:
			noPool = append(noPool, set.Name)
		}
	}
	return chosen, noPool
}
