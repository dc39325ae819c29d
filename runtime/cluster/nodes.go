package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/rollout"
)

// Errors of an API that is asked for the nodes.
var (
	ErrKubeconfig = errors.New("the API of the cluster is not configured")
	ErrAPI        = errors.New("the API of the cluster")
	ErrNoReports  = errors.New("the cluster has no reports of nodes")
)

// API is the API of a cluster, for who asks about its nodes.
type API struct {
	client client
	config *rest.Config
}

// Connect reads a kubeconfig, as kubectl does: "" is $KUBECONFIG or ~/.kube/config, and "" as the context the current
// one; or InCluster. It does not connect yet.
func Connect(kubeconfig, kubecontext string) (API, error) {
	load := rest.InClusterConfig
	if kubeconfig != InCluster {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = kubeconfig
		load = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
			&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).ClientConfig
	}
	config, err := load()
	if err != nil {
		return API{}, fmt.Errorf("%w: %w", ErrKubeconfig, err)
	}
	c, err := newClient(config, "pinbox")
	if err != nil {
		return API{}, fmt.Errorf("%w: %w", ErrKubeconfig, err)
	}
	return API{c, config}, nil
}

// Config is how the API is connected to.
func (a API) Config() *rest.Config { return a.config }

// Wish is what the API wants of the nodes.
type Wish struct {
	Rollouts []rollout.Rollout
	sets     []Set
}

// Targets are the sets that a rollout is to release.
func (w Wish) Targets(rolloutName string) (targets []rollout.Target) {
	for _, s := range w.sets {
		if s.Rollout == rolloutName {
			targets = append(targets, s.target())
		}
	}
	return targets
}

// Settled reports whether all rollouts are complete.
func (w Wish) Settled() bool {
	return !slices.ContainsFunc(w.Rollouts, func(r rollout.Rollout) bool { return !r.Settled(w.Targets(r.Metadata.Name)) })
}

// Wish returns the sets and the rollouts.
func (a API) Wish(ctx context.Context) (w Wish, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if w.sets, err = a.sets(ctx); err != nil {
		return w, fmt.Errorf("%w: %w", ErrAPI, err)
	}
	w.Rollouts, err = a.listRollouts(ctx)
	return w, err
}

// Nodes returns all nodes, with their reports and the generations of their sets. It makes four requests, most of them
// at once.
func (a API) Nodes(ctx context.Context) ([]fleet.Node, error) {
	var w Wish
	wished := make(chan error, 1)
	go func() {
		var err error
		w, err = a.Wish(ctx)
		wished <- err
	}()
	members, err := a.members(ctx)
	if wishErr := <-wished; wishErr != nil {
		return nil, wishErr
	}
	if err != nil {
		return nil, err
	}
	return members.nodesFor(w), nil
}

// NodesFor returns all nodes for what is known to be wanted.
func (a API) NodesFor(ctx context.Context, w Wish) ([]fleet.Node, error) {
	members, err := a.members(ctx)
	if err != nil {
		return nil, err
	}
	return members.nodesFor(w), nil
}

// members are the Nodes of a cluster, and the newest report of each name.
type members struct {
	nodes   []metav1.PartialObjectMetadata
	reports map[string]fleet.Object
}

// members asks for both at once.
func (a API) members(ctx context.Context) (m members, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	listed := make(chan error, 1)
	go func() {
		list, err := a.client.nodes.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).
			List(ctx, metav1.ListOptions{})
		if err != nil {
			listed <- fmt.Errorf("%w: %w", ErrAPI, err)
			return
		}
		m.nodes = list.Items
		listed <- nil
	}()
	m.reports, err = a.reports(ctx)
	if nodesErr := <-listed; nodesErr != nil {
		return m, nodesErr
	}
	return m, err
}

// reports returns the newest report of each node out of the cache of the API server: a report says what was a moment
// ago in any case, and the generations that are wanted are not from there.
func (a API) reports(ctx context.Context) (map[string]fleet.Object, error) {
	content, err := a.client.rest.Get().AbsPath("/apis", fleet.Group, fleet.Version, reportResource.Resource).
		Param("resourceVersion", "0").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, ErrNoReports
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAPI, err)
	}
	objects, err := fleet.Decode(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return fleet.Newest(objects), nil
}

func (m members) nodesFor(w Wish) (nodes []fleet.Node) {
	for i := range m.nodes {
		nodes = append(nodes, member(&m.nodes[i], m.reports, w))
	}
	return nodes
}

// sets returns the sets; none if the API serves none.
func (a API) sets(ctx context.Context) ([]Set, error) {
	list, _, err := a.listSets(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var sets []Set
	for i := range list.Items {
		s, err := object(&list.Items[i])
		if err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// listSets lists the sets in the version that the API serves.
func (a API) listSets(
	ctx context.Context,
) (list *unstructured.UnstructuredList, api dynamic.ResourceInterface, err error) {
	err = a.client.eachVersion(func(r dynamic.ResourceInterface) (err error) {
		api = r
		list, err = r.List(ctx, metav1.ListOptions{})
		return err
	})
	return list, api, err
}

// member is a node with its report, unless that is of another Node of the same name, and with the generations of the
// sets that its pools have.
func member(node *metav1.PartialObjectMetadata, reports map[string]fleet.Object, w Wish) fleet.Node {
	n := fleet.Node{
		Name: node.Name, Desired: map[string]int64{}, Held: map[string]string{},
		Place: rollout.Place(node.Name, node.Labels), Created: node.CreationTimestamp.Time,
	}
	o := reports[node.Name]
	if uid := o.Owner(); uid == "" || uid == string(node.UID) {
		n.Report = o.Status
	}
	managed := n.Report != nil && n.Report.Owner == string(runtime.MCO)
	pools, err := Pools(Roles(node.Labels), managed)
	if n.Report != nil && len(n.Report.Pools) > 0 { // also those of --pool
		pools, err = n.Report.Pools, nil
	}
	if err != nil { // its report says it
		return n
	}
	for _, s := range w.sets {
		if s.Role == nil && !managed || s.Role != nil && slices.Contains(pools, *s.Role) {
			n.Desired[s.Name] = s.Generation
			if text := w.held(s, n.Place); text != "" && !managed {
				n.Held[s.Name] = text
			}
		}
	}
	return n
}

// held says what a set waits for on the node with the place; "" if it does not wait.
func (w Wish) held(s Set, place int64) string {
	if s.Rollout == "" {
		return ""
	}
	for _, r := range w.Rollouts {
		if r.Metadata.Name != s.Rollout {
			continue
		}
		if r.Status.Releases(s.target(), place) {
			return ""
		}
		return fmt.Sprintf("rollout %s: %s", s.Rollout, cmp.Or(r.Status.Reason, "the controller has not begun"))
	}
	return fmt.Sprintf("the cluster has no rollout %s", s.Rollout)
}
