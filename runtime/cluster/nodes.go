package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/fault"
)

// Errors of an API that is asked for the nodes.
var (
	ErrKubeconfig = fault.New(fault.Usage, "the API of the cluster is not configured",
		"name a file with --kubeconfig, or files of reports")
	ErrAPI = fault.New(fault.Registry, "the API of the cluster",
		"the user of the kubeconfig needs the rights of deploy/fleet-viewer.yaml")
	ErrNoReports = fault.New(fault.Input, "the cluster has no reports of nodes",
		"docs/fleet.md says what to apply, and how the nodes follow a cluster")
)

// API is the API of a cluster, for who asks about its nodes.
type API struct{ client client }

// Connect reads a kubeconfig, as kubectl does: "" is $KUBECONFIG or ~/.kube/config, and "" as the context the current
// one. It does not connect yet.
func Connect(kubeconfig, kubecontext string) (API, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: kubecontext}).ClientConfig()
	if err != nil {
		return API{}, fmt.Errorf("%w: %w", ErrKubeconfig, err)
	}
	c, err := newClient(config, "pinbox")
	if err != nil {
		return API{}, fmt.Errorf("%w: %w", ErrKubeconfig, err)
	}
	return API{c}, nil
}

// Nodes returns all nodes, with their reports and the generations of their sets. It makes three requests at once.
func (a API) Nodes(ctx context.Context) (nodes []fleet.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var sets []Set
	var list *metav1.PartialObjectMetadataList
	var reports map[string]fleet.Object
	var setsErr, nodesErr, reportsErr error
	var listing sync.WaitGroup
	listing.Go(func() { sets, setsErr = a.sets(ctx) })
	listing.Go(func() {
		list, nodesErr = a.client.nodes.Resource(nodeResource).List(ctx, metav1.ListOptions{})
		if nodesErr != nil {
			nodesErr = fmt.Errorf("%w: %w", ErrAPI, nodesErr)
		}
	})
	listing.Go(func() { reports, reportsErr = a.reports(ctx) })
	listing.Wait()
	if err := cmp.Or(setsErr, nodesErr, reportsErr); err != nil {
		return nil, err
	}
	for i := range list.Items {
		nodes = append(nodes, member(&list.Items[i], reports, sets))
	}
	return nodes, nil
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
	objects, err := fleet.Decode(content)
	if err != nil {
		return nil, err
	}
	return fleet.Newest(objects, time.Now()), nil
}

// sets returns the sets in the version that the API serves; none if it serves none.
func (a API) sets(ctx context.Context) ([]Set, error) {
	var list *unstructured.UnstructuredList
	err := a.client.eachVersion(func(r dynamic.ResourceInterface) (err error) {
		list, err = r.List(ctx, metav1.ListOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAPI, err)
	}
	var sets []Set
	for i := range list.Items {
		s, err := object(&list.Items[i])
		if err == nil { // nodes do not take such a set either
			sets = append(sets, s)
		}
	}
	return sets, nil
}

// member is a node with its report, unless that is of another Node of the same name, and with the generations of the
// sets that its pools have.
func member(node *metav1.PartialObjectMetadata, reports map[string]fleet.Object, sets []Set) fleet.Node {
	n := fleet.Node{Name: node.Name, Desired: map[string]int64{}, Created: node.CreationTimestamp.Time}
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
	for _, s := range sets {
		if s.Role == nil && !managed || s.Role != nil && slices.Contains(pools, *s.Role) {
			n.Desired[s.Name] = s.Generation
		}
	}
	return n
}
