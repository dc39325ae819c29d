package source

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/pinset"
)

// imageField describes where an object names images.
type imageField struct {
	// path is the path of a mapping, or with "[]" of a list of them, below any key of the object.
	path string
	// image and policy are fields of the mapping; policy is "" if it has none.
	image, policy string
	// transport is an optional prefix of the image.
	transport string
	puller    Puller
	// volume marks image volumes.
	volume bool
}

// containers are fields of core/v1 Container, or of types with the same two fields.
func containers(paths ...string) (fields []imageField) {
	for _, path := range paths {
		fields = append(fields, imageField{path: path, image: "image", policy: "imagePullPolicy"})
	}
	return fields
}

// podFields are the fields of a PodSpec: Kubernetes API, core/v1. They apply to objects of all kinds,
// because custom resources also have templates of pods.
func podFields() []imageField {
	return append(containers("containers[]", "initContainers[]", "ephemeralContainers[]"),
		imageField{path: "volumes[].image", image: "reference", policy: "pullPolicy", volume: true})
}

// imageKind describes where objects of some kinds name images.
type imageKind struct {
	group string
	// kinds of the group; all if empty.
	kinds []string
	// fields in addition to those of pods.
	fields []imageField
	// expression is how a text begins that is substituted when the object runs; "" if there is
	// none.
	expression string
	// none is true for kinds that name no image of a pod: definitions, reports, and patterns of policies.
	none bool
	// unsure is true for kinds whose fields for images do not make nodes pull them.
	unsure bool
}

// imports are the image fields of a DataVolumeSource of CDI. Those that the kubelet pulls have the
// policy of the object CDI, IfNotPresent by default.
func imports(registry Puller) []imageField {
	return []imageField{
		{path: "source.registry", image: "url", transport: "docker://", puller: registry},
		{path: "source.vddk", image: "initImageURL"},
	}
}

// imageKinds by their APIs: github.com/tektoncd/pipeline pkg/apis/pipeline/v1,
// github.com/argoproj/argo-workflows pkg/apis/workflow/v1alpha1, kubevirt.io/api core/v1 and
// pool/v1beta1, kubevirt.io/containerized-data-importer-api pkg/apis/core/v1beta1,
// github.com/operator-framework/api pkg/operators/v1alpha1, knative.dev/serving
// pkg/apis/serving/v1. The pullers are taken from operator-lifecycle-manager,
// pkg/controller/registry/reconciler, and from containerized-data-importer,
// pkg/controller/import-controller.go and dataimportcron-controller.go.
func imageKinds() []imageKind {
	disks := append(containers("containerDisk", "kernelBoot.container"), imports(Importer)...)
	return []imageKind{
		{group: "", kinds: []string{"Event"}, none: true},
		{group: "events.k8s.io", none: true},
		{group: "apiextensions.k8s.io", none: true},
		{group: pinset.Group, kinds: []string{pinset.Kind}, none: true}, // lint reads its images separately
		{group: "admissionregistration.k8s.io", none: true},
		{group: "constraints.gatekeeper.sh", none: true}, {group: "templates.gatekeeper.sh", none: true},
		{group: "kyverno.io", none: true}, {group: "policies.kyverno.io", none: true},
		{group: "policy.sigstore.dev", none: true},
		{group: "image.openshift.io", unsure: true}, {group: "build.openshift.io", unsure: true},
		{group: "kustomize.config.k8s.io", unsure: true}, {group: "mirror.openshift.io", unsure: true},
		{group: "tekton.dev", kinds: []string{"ClusterTask", "Pipeline", "PipelineRun", "Task", "TaskRun"},
			fields: containers("steps[]", "sidecars[]", "stepTemplate"), expression: "$("},
		{group: "tekton.dev", kinds: []string{"StepAction"},
			fields: []imageField{{path: "spec", image: "image"}}, expression: "$("},
		{group: "argoproj.io", kinds: []string{"ClusterWorkflowTemplate", "CronWorkflow", "Workflow", "WorkflowTemplate"},
			fields: containers("container", "script", "sidecars[]"), expression: "{{"},
		{group: "kubevirt.io", fields: disks,
			kinds: []string{"VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceReplicaSet"}},
		{group: "pool.kubevirt.io", kinds: []string{"VirtualMachinePool"}, fields: disks},
		{group: "cdi.kubevirt.io", kinds: []string{"DataVolume", "VolumeImportSource"}, fields: imports(Importer)},
		{group: "cdi.kubevirt.io", kinds: []string{"DataImportCron"}, fields: imports(ImportCron)},
		{group: "operators.coreos.com", kinds: []string{"ClusterServiceVersion"},
			fields: []imageField{{path: "relatedImages[]", image: "image"}}},
		{group: "operators.coreos.com", kinds: []string{"CatalogSource"},
			fields: []imageField{{path: "spec", image: "image", puller: OLM}}},
	}
}

// object describes the object that the walker is in.
type object struct {
	imageKind
	// name is the kind with its group, as kubectl writes it, and the name.
	name string
	// from is where the object is in a cluster; zero for one of a file that somebody wrote.
	from Live
	// nested is true in an object that stands in a text of another one.
	nested bool
	// root is how many elements of the path lead to the object.
	root   int
	shared shared
}

// objectOf describes the object in a mapping. References to objects, such as owners, also have a
// kind, but name no images.
func objectOf(n *yaml.Node) (o object, ok bool) {
	kind, version := document.Text(document.Field(n, "kind")), document.Text(document.Field(n, "apiVersion"))
	if kind == "" || version == "" && document.Field(n, "metadata") == nil && document.Field(n, "spec") == nil {
		return object{}, false
	}
	group, _, grouped := strings.Cut(version, "/")
	if !grouped {
		group = ""
	}
	o = object{imageKind: imageKind{fields: podFields()}, name: strings.TrimSuffix(kind+"."+group, ".")}
	if name := document.Text(document.Field(document.Field(n, "metadata"), "name")); name != "" {
		o.name += "/" + name
	}
	o.from = liveOf(n, kind)
	o.none = grouped && strings.HasSuffix(kind, "Report") // of scanners and policies: what was there
	for _, k := range imageKinds() {
		if k.group == group && (len(k.kinds) == 0 || slices.Contains(k.kinds, kind)) {
			o.none, o.unsure, o.expression, o.fields = k.none, k.unsure, k.expression, append(o.fields, k.fields...)
		}
	}
	return o, true
}

// mappings returns the mappings at the path that begins with a key and its value.
func (f imageField) mappings(key string, value *yaml.Node) (all []*yaml.Node) {
	first, below, _ := strings.Cut(f.path, ".")
	name, isList := strings.CutSuffix(first, "[]")
	switch {
	case key != name:
		return nil
	case isList && value.Kind == yaml.SequenceNode:
		all = value.Content
	case !isList:
		all = []*yaml.Node{value}
	}
	if below == "" {
		return all
	}
	var fields []*yaml.Node
	for _, n := range all {
		fields = append(fields, document.Field(n, below))
	}
	return fields
}

// kind returns the kind of the object without its group.
func (o object) kind() string {
	kind, _, _ := strings.Cut(o.name, "/")
	kind, _, _ = strings.Cut(kind, ".")
	return kind
}

// Live is where an object is in a cluster.
type Live struct {
	Namespace string `json:"namespace,omitempty"`
	// Owner is the kind and the name of what the object belongs to: of its controller, or its own.
	Owner string `json:"owner"`
}

// liveOf returns where an object is that a cluster has printed: its API server gives each a UID.
func liveOf(n *yaml.Node, kind string) Live {
	meta := document.Field(n, "metadata")
	if document.Text(document.Field(meta, "uid")) == "" {
		return Live{}
	}
	owner, name := kind, document.Text(document.Field(meta, "name"))
	if owners := document.Field(meta, "ownerReferences"); owners != nil && len(owners.Content) > 0 {
		of := owners.Content[0]
		for _, o := range owners.Content {
			if document.Text(document.Field(o, "controller")) == "true" {
				of = o
			}
		}
		owner, name = document.Text(document.Field(of, "kind")), document.Text(document.Field(of, "name"))
	}
	// A Deployment names its ReplicaSets after this label of their pods.
	hash := document.Text(document.Field(document.Field(meta, "labels"), "pod-template-hash"))
	if base, ok := strings.CutSuffix(name, "-"+hash); ok && hash != "" && owner == "ReplicaSet" {
		owner, name = "Deployment", base
	}
	return Live{printable(document.Text(document.Field(meta, "namespace"))), printable(owner + "/" + name)}
}
