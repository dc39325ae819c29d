package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pinbox/pinbox/storage/pinset"
)

// InCluster is the kubeconfig of a pod: the address in its environment, and the token of its ServiceAccount.
const InCluster = "in-cluster"

// answerTime is how long the API has to answer a request that is no watch: the --request-timeout of kube-apiserver.
const answerTime = time.Minute

// resource is the name of the sets in the paths of the API.
const resource = "pinnedimagesets"

// nodeResource are the Nodes in the API.
var nodeResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// versions of the API that serve the sets, the preferred one first: v1 since OpenShift 4.19, v1alpha1 before.
var versions = []string{"v1", "v1alpha1"}

// client makes requests to the API.
type client struct {
	sets  dynamic.Interface
	nodes metadata.Interface
	rest  rest.Interface
}

// dial reads a kubeconfig. It does not connect.
func dial(kubeconfig string) (client, error) {
	var config *rest.Config
	var err error
	if kubeconfig == InCluster {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return client{}, err
	}
	return newClient(config, "pinbox-node")
}

func newClient(c *rest.Config, agent string) (api client, err error) {
	c.UserAgent, c.WarningHandler = agent, rest.NoWarnings{}
	if api.sets, err = dynamic.NewForConfig(c); err != nil {
		return client{}, err
	}
	if api.nodes, err = metadata.NewForConfig(c); err != nil {
		return client{}, err
	}
	api.rest, err = rest.UnversionedRESTClientFor(dynamic.ConfigFor(c))
	return api, err
}

// eachVersion calls a function for the versions of the sets until one is served.
func (c client) eachVersion(do func(dynamic.ResourceInterface) error) (err error) {
	for _, version := range versions {
		err = do(c.sets.Resource(schema.GroupVersionResource{Group: pinset.Group, Version: version, Resource: resource}))
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

// served reports whether sets can be created. While a CustomResourceDefinition is being removed, its objects are
// deleted, and the API does not list the verb create any more: customresource_discovery_controller.go of
// apiextensions-apiserver.
func (c client) served(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for _, version := range versions {
		content, err := c.rest.Get().AbsPath("/apis", pinset.Group, version).Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			continue
		}
		var list metav1.APIResourceList
		if err == nil {
			err = json.Unmarshal(content, &list)
		}
		if err != nil {
			return false, fmt.Errorf("resources of %s: %w", pinset.Group, err)
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
			return r.Name == resource && slices.Contains(r.Verbs, "create")
		}) {
			return true, nil
		}
	}
	return false, nil
}
