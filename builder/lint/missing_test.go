package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What a cluster runs and the lock does not have is grouped by namespace and owner. Objects of files that somebody
// wrote are in no group.
func TestMissingInACluster(t *testing.T) {
	pin := "quay.io/site/has@sha256:" + strings.Repeat("a", 64)
	lock := pinset.Lock{Version: 1, Images: []pinset.LockedImage{{Pin: pin, Tags: []string{"quay.io/site/has:1"}}}}
	const list = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "1", "namespace": "web", "name": "shop-6d9f-x",
 "labels": {"pod-template-hash": "6d9f"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "shop-6d9f", "controller": true}]},
 "spec": {"containers": [{"image": "quay.io/site/shop:2"}, {"image": "quay.io/site/has:1"}]},
 "status": {"containerStatuses": [{"image": "quay.io/site/other:9"}]}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "2", "namespace": "web", "name": "shop-6d9f-y",
 "labels": {"pod-template-hash": "6d9f"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "shop-6d9f"}]},
 "spec": {"containers": [{"image": "quay.io/site/shop:2"}], "initContainers": [{"image": "quay.io/site/init:1"}]}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "3", "namespace": "kube-system", "name": "net-1",
 "ownerReferences": [{"kind": "Node", "name": "n"}, {"kind": "DaemonSet", "name": "net", "controller": true}]},
 "spec": {"containers": [{"image": "nginx"}]}},
{"apiVersion": "example.com/v1", "kind": "Driver", "metadata": {"uid": "4", "name": "gpu"}, "spec": {"agent": "quay.io/site/agent:1"}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "written"}, "spec": {"containers": [{"image": "quay.io/site/written:1"}]}}
]}`
	const gathered = `{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"uid": "5", "namespace": "etcd", "name": "etcd-0"},
 "spec": {"containers": [{"image": "quay.io/site/etcd:3"}]}, "status": {"containerStatuses": [{"image": "quay.io/site/other:9"}]}}]}`
	objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(list+gathered))
	if err != nil {
		t.Fatal(err)
	}
	want := []lint.Missing{
		{Live: source.Live{Owner: "Driver/gpu"}, Images: []string{"quay.io/site/agent:1"}},
		{Live: source.Live{Namespace: "etcd", Owner: "Pod/etcd-0"}, Images: []string{"quay.io/site/etcd:3"}},
		{Live: source.Live{Namespace: "kube-system", Owner: "DaemonSet/net"}, Images: []string{"docker.io/library/nginx:latest"}},
		{
			Live:   source.Live{Namespace: "web", Owner: "Deployment/shop"},
			Images: []string{"quay.io/site/init:1", "quay.io/site/shop:2"},
		},
	}
	if diff := cmp.Diff(want, lint.MissingInCluster(objects, lock)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
