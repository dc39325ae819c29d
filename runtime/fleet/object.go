package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Group, Version and Kind of a report in the API: deploy/nodeimagestatuses.yaml.
const (
	Group   = "pinbox.dev"
	Version = "v1alpha1"
	Kind    = "NodeImageStatus"
)

// Object is a NodeImageStatus: the report of the node that it has the name of. `kubectl get nodeimagestatuses -o json`
// prints it, or a list of them, and `pinbox-node report` writes it.
type Object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Status     *Report  `json:"status,omitempty"`
	// Content is what the mounted stores of the node have, for `pinbox delta`. Only files have it.
	Content []pinset.StoreContent `json:"content,omitempty"`
}

// Metadata of an object, as far as it is used.
type Metadata struct {
	Name   string           `json:"name"`
	Owners []OwnerReference `json:"ownerReferences,omitempty"`
}

// OwnerReference is the Node of an object.
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// NewObject makes the object of a node; uid is that of the Node, "" if it is not known.
func NewObject(node, uid string, r *Report) Object {
	o := Object{APIVersion: Group + "/" + Version, Kind: Kind, Metadata: Metadata{Name: node}, Status: r}
	if uid != "" {
		o.Metadata.Owners = []OwnerReference{{"v1", "Node", node, uid}}
	}
	return o
}

// MaxObjectBytes is the size of the largest object, in bytes: etcd takes 1.5 MiB at most (--max-request-bytes).
const MaxObjectBytes = 3 << 19

// maxListBytes is the size of the largest list, in bytes: 10,000 nodes with 10 KiB each, of which 4 KiB are usual.
const maxListBytes = 100 << 20

// ErrNotReport is a file that is no report.
var ErrNotReport = fault.New(fault.Input, "no report of a node",
	"name files of `pinbox-node report`, or of `kubectl get nis -o json`")

// maxNodes is how many reports a list, or all files together, may have; maxValues how many JSON values one stream, and
// maxElements how many elements all lists of these reports together: a value of two bytes takes a hundred in memory.
// 10,000 nodes have a tenth of the elements.
const maxNodes, maxValues, maxElements = 20_000, 2 << 20, 1 << 20

// Decode reads an object, or a list of them.
func Decode(content []byte) ([]Object, error) {
	if len(content) > maxListBytes {
		return nil, fmt.Errorf("%w: more than %d MiB", ErrNotReport, maxListBytes>>20)
	}
	if tooMany(content) {
		return nil, fmt.Errorf("%w: more than %d values", ErrNotReport, maxValues)
	}
	var list struct {
		Object
		Items items `json:"items"`
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	err := dec.Decode(&list)
	if err == nil {
		if _, end := dec.Token(); !errors.Is(end, io.EOF) { // as `cat` makes of two files
			err = errors.New("more than one JSON document: give a folder with a file for each")
		}
	}
	switch {
	case pinset.OtherVersion(err):
		return nil, fmt.Errorf("report of %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotReport, err)
	case list.Kind == Kind:
		list.Items = []Object{list.Object}
	case list.Kind != "List" && list.Kind != Kind+"List":
		return nil, fmt.Errorf("%w: kind %q", ErrNotReport, list.Kind)
	}
	if list.Kind == Kind {
		if err := list.Object.check(); pinset.OtherVersion(err) {
			return nil, fmt.Errorf("report of %w", err)
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotReport, err)
		}
		list.Items[0].Clean()
	}
	return list.Items, nil
}

// tooMany reports whether a JSON text has too many values: each follows a bracket, a comma or a colon.
func tooMany(text []byte) bool {
	quoted, values := false, 0
	for i := 0; i < len(text) && values <= maxValues; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '[' || c == ',' || c == ':'):
			values++
		}
	}
	return values > maxValues
}

// elements is how many elements the lists of a report have. What a store has is checked, and takes its bytes.
func (o Object) elements() int {
	n := len(o.Metadata.Owners)
	if r := o.Status; r != nil {
		n += len(r.Pools) + len(r.Conditions) + len(r.Sets) + len(r.Failures) + len(r.Space) + len(r.Errors) + len(r.Kept) +
			len(r.Stores) + len(r.Wanted)
	}
	return n
}

// budget is what is left of the limits.
type budget struct{ nodes, elements int }

// spend returns an error if an object is too much.
func (b *budget) spend(o Object) error {
	b.nodes, b.elements = b.nodes-1, b.elements-o.elements()
	if b.nodes < 0 {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	if b.elements < 0 {
		return fmt.Errorf("more than %d elements of lists", maxElements)
	}
	return nil
}

// items are the objects of a list.
type items []Object

// UnmarshalJSON ends with the first object that is none of a node: of a list of empty objects, each takes many times
// the memory of its two bytes.
func (all *items) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return err
	}
	left := budget{maxNodes, maxElements}
	for dec.More() {
		var o Object
		if err := dec.Decode(&o); err != nil {
			return err
		}
		if err := o.check(); err != nil {
			return err
		}
		if err := left.spend(o); err != nil {
			return err
		}
		o.Clean()
		*all = append(*all, o)
	}
	return nil
}

// check refuses what no node writes. Texts are escaped by who prints them.
func (o Object) check() error {
	// There is no version before the first, v1alpha1.
	if other, ours := strings.CutPrefix(o.APIVersion, Group+"/"); ours && other != Version && o.Kind == Kind {
		return fmt.Errorf("version %s; this pinbox reads %s: %w", other, Version, pinset.ErrNewer)
	}
	if o.APIVersion != Group+"/"+Version || o.Kind != Kind {
		return fmt.Errorf("%s %s", o.APIVersion, o.Kind)
	}
	if !pinset.ValidName(o.Metadata.Name) {
		return fmt.Errorf("metadata.name %q: not an RFC 1123 subdomain", o.Metadata.Name)
	}
	if r := o.Status; r != nil && (r.BytesToGo < 0 || r.Images.Total < 0 || r.Images.Pinned < 0) {
		return fmt.Errorf("%s: negative numbers", o.Metadata.Name)
	}
	if o.Status != nil {
		if err := wanted.Check(o.Status.Wanted); err != nil {
			return fmt.Errorf("%s: wanted: %w", o.Metadata.Name, err)
		}
	}
	if err := pinset.CheckContents(o.Content); err != nil {
		return fmt.Errorf("%s: %w", o.Metadata.Name, err)
	}
	return nil
}

// Owner is the UID of the Node that the report is of, "" if it names none.
func (o Object) Owner() string {
	for _, owner := range o.Metadata.Owners {
		if owner.Kind == "Node" {
			return owner.UID
		}
	}
	return ""
}

// clockError is how much later than now a report may be.
const clockError = time.Hour

// Newest returns one report for each node, the newest. One of a time that has not come counts only if there is no
// other: else it would count for ever.
func Newest(objects []Object, now time.Time) map[string]Object {
	newest := map[string]Object{}
	time := func(o Object) (t time.Time) {
		if o.Status != nil && !o.Status.Time.After(now.Add(clockError)) {
			t = o.Status.Time
		}
		return t
	}
	for _, o := range objects {
		if before, found := newest[o.Metadata.Name]; !found || time(o).After(time(before)) {
			newest[o.Metadata.Name] = o
		}
	}
	return newest
}
