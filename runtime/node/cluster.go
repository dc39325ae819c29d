package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/storage/pinset"
)

// clusterFile is the document with what is known of the cluster.
func (n *Node) clusterFile() string { return filepath.Join(n.conf.StateDir, cluster.KnownFile) }

// errNotKnown means that nobody knows which sets of the cluster count for the node, so none may be taken for removed.
var errNotKnown = errors.New("the sets of the cluster for this node are not known yet")

// clusterSets returns the sets of the cluster that count for the node.
func (n *Node) clusterSets() ([]pinset.Set, error) {
	k, err := cluster.Read(n.clusterFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it follows no cluster
	}
	if err != nil {
		return nil, err
	}
	if !k.Listed() {
		return nil, fmt.Errorf("%w: %s", errNotKnown, k.Reason)
	}
	chosen, _, err := n.choose(k)
	return chosen, err
}

// choose returns the sets that count for the node, and the names of those that count for none.
func (n *Node) choose(k cluster.Known) (chosen []pinset.Set, noPool []string, err error) {
	sets, errs := k.Decode()
	pools := n.poolNames()
	if pools == nil && k.Registered {
		pools, err = cluster.Pools(k.Roles, n.managed)
		errs = append(errs, err)
	}
	labelled := func(s pinset.Set) bool { _, ok := s.Labels[pinset.RoleLabel]; return ok }
	if pools == nil && err == nil && slices.ContainsFunc(sets, labelled) {
		errs = append(errs, fmt.Errorf("%w: the API does not have the node %s, or does not show it", errNotKnown,
			n.conf.NodeName))
	}
	chosen, noPool = cluster.Choose(sets, pools, n.managed)
	return chosen, noPool, errors.Join(errs...)
}

// clusterStatus describes what is known of the cluster; nil if the node follows none.
func (n *Node) clusterStatus() *runtime.ClusterStatus {
	k, err := cluster.Read(n.clusterFile())
	if err != nil { // clusterSets reports it
		return nil
	}
	chosen, noPool, _ := n.choose(k)
	return &runtime.ClusterStatus{
		Operator: n.operatorSets(k, chosen),
		State:    string(k.State), Since: k.Since, Reason: k.Reason, FirstSync: k.FirstSync, Kept: k.Kept(), NoPool: noPool,
		Refused: k.Refused,
	}
}

// operatorSets is what the Machine Config Operator reports of the sets that count for the node; nil if it does not pin.
func (n *Node) operatorSets(k cluster.Known, chosen []pinset.Set) (all []runtime.OperatorSet) {
	if n.owner() != runtime.MCO {
		return nil
	}
	for _, set := range chosen {
		reported := runtime.OperatorSet{Name: set.Name}
		if i := slices.IndexFunc(k.Operator, func(r runtime.OperatorSet) bool { return r.Name == set.Name }); i >= 0 {
			reported = k.Operator[i]
		}
		reported.Generation = set.Generation
		all = append(all, reported)
	}
	return all
}
