package source

import (
	"fmt"
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

// imageKind describes kinds whose images are all known.
type imageKind struct {
	group string
	kinds []string
	// fields in addition to those of pods.
	fields []imageField
	// expression is how a text begins that is substituted when the object runs; "" if there is
	// none.
	expression string
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
		{group: "", kinds: []string{"Pod", "PodTemplate", "ReplicationController"}},
		{group: "apiextensions.k8s.io", kinds: []string{"CustomResourceDefinition"}}, // its schema names no image
		{group: pinset.Group, kinds: []string{pinset.Kind}},                          // lint reads its images separately
		{group: "apps", kinds: []string{"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}},
		{group: "batch", kinds: []string{"CronJob", "Job"}},
		{group: "apps.openshift.io", kinds: []string{"DeploymentConfig"}},
		{group: "serving.knative.dev", kinds: []string{"Configuration", "Revision", "Service"}},
		{group: "tekton.dev", kinds: []string{"ClusterTask", "Pipeline", "PipelineRun", "Task", "TaskRun"},
			fields: containers("steps[]", "sidecars[]", "stepTemplate"), expression: "$("},
		{group: "tekton.dev", kinds: []string{"StepAction"},
			fields: []imageField{{path: "spec", image: "image"}}, expression: "$("},
		{group: "argoproj.io", kinds: []string{"ClusterWorkflowTemplate", "CronWorkflow", "Workflow", "WorkflowTemplate"},
			fields: containers("container", "script", "sidecars[]"), expression: "{{"},
		{group: "argoproj.io", kinds: []string{"Rollout"}},
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
	// name is the kind with its group, as kubectl writes it.
	name string
	// known is true if no other field of the object names an image.
	known bool
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
	for _, k := range imageKinds() {
		if k.group == group && slices.Contains(k.kinds, kind) {
			o.known, o.expression, o.fields = true, k.expression, append(o.fields, k.fields...)
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

// Unknown is the full name of an image in an object of a kind that pinbox does not know.
type Unknown struct {
	Image     Field
	Reference pinset.Reference
	// Kind is the kind of the object, with its group.
	Kind string
}

// DescribeUnknown counts the images, and lists them by kind.
func DescribeUnknown(all []Unknown) string {
	var kinds []string
	images, total := map[string][]string{}, 0
	for _, u := range all {
		if !slices.Contains(kinds, u.Kind) {
			kinds = append(kinds, u.Kind)
		}
		if name := u.Reference.String(); !slices.Contains(images[u.Kind], name) {
			images[u.Kind], total = append(images[u.Kind], name), total+1
		}
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%s (%s)", kind, strings.Join(images[kind], ", "))
	}
	count := "1 image"
	if total != 1 {
		count = fmt.Sprintf("%d images", total)
	}
	return fmt.Sprintf("%s in kinds that pinbox does not know: %s", count, strings.Join(kinds, ", "))
}
