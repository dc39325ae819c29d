package provenance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	predicate "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pinbox/pinbox/storage/pinset"
)

// URIs of the statement.
const (
	builderID     = "https://github.com/pinbox/pinbox"
	typeBuild     = builderID + "/build/v1"
	typeDelta     = builderID + "/delta/v1"
	predicateType = "https://slsa.dev/provenance/v1"
)

// ErrInvalid is the error for a file that is not such a statement.
var ErrInvalid = errors.New("not a provenance statement of pinbox")

// maxSize is the limit for a statement in bytes: 250 for each of 30,000 images. One that is all empty lists takes 60
// times as much memory.
const maxSize = 8 << 20

// Build describes a build.
type Build struct {
	// Delta is true for `pinbox delta`.
	Delta bool
	// Version of pinbox; "" if it is unknown.
	Version string
	// Parameters are what the user asked for, as JSON has them.
	Parameters map[string]any
	// Images are pins.
	Images []string
	// Files are other inputs: SHA-256 in hexadecimal by their names here.
	Files map[string]string
}

// ImageURI names an image as skopeo does.
func ImageURI(pin string) string { return "docker://" + pin }

// Statement returns the text of a statement. Subjects are what was made: SHA-256 in hexadecimal by file name.
func (b Build) Statement(subjects map[string]string) ([]byte, error) {
	parameters, err := structpb.NewStruct(b.Parameters)
	if err != nil {
		return nil, err
	}
	p := &predicate.Provenance{
		BuildDefinition: &predicate.BuildDefinition{BuildType: typeBuild, ExternalParameters: parameters},
		RunDetails:      &predicate.RunDetails{Builder: &predicate.Builder{Id: builderID}},
	}
	if b.Delta {
		p.BuildDefinition.BuildType = typeDelta
	}
	if b.Version != "" {
		p.RunDetails.Builder.Version = map[string]string{"pinbox": b.Version}
	}
	for _, pin := range b.Images {
		img, err := pinset.ParseImage(pin)
		if err != nil {
			return nil, err
		}
		p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies,
			&statement.ResourceDescriptor{Uri: ImageURI(pin), Digest: sha256Of(img.Digest.Encoded())})
	}
	p.BuildDefinition.ResolvedDependencies = append(p.BuildDefinition.ResolvedDependencies, resources(b.Files)...)
	var fields structpb.Struct
	if err := convert(p, &fields); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(&statement.Statement{
		Type: statement.StatementTypeUri, Subject: resources(subjects), PredicateType: predicateType, Predicate: &fields,
	})
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer // protojson puts blanks at random
	err = json.Indent(&indented, text, "", "  ")
	indented.WriteByte('\n')
	return indented.Bytes(), err
}

func resources(sums map[string]string) (all []*statement.ResourceDescriptor) {
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, &statement.ResourceDescriptor{Name: name, Digest: sha256Of(sums[name])})
	}
	return all
}

func sha256Of(hex string) map[string]string {
	return map[string]string{statement.AlgorithmSHA256.String(): hex}
}

// convert converts one message to another with the same JSON.
func convert(from, to proto.Message) error {
	text, err := protojson.Marshal(from)
	if err == nil {
		err = protojson.Unmarshal(text, to)
	}
	return err
}

// Statement is what a statement says.
type Statement struct {
	// Subjects are what was made: SHA-256 in hexadecimal by name.
	Subjects map[string]string
	// Inputs are what it was made of: SHA-256 in hexadecimal by URI, or by name if there is none.
	Inputs map[string]string
}

// Decode reads a statement of at most 8 MiB.
func Decode(r io.Reader) (s Statement, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("it has more than %d MiB", maxSize>>20)
	}
	if err == nil {
		s, err = decode(text)
	}
	if pinset.OtherVersion(err) {
		return Statement{}, fmt.Errorf("statement of %w", err)
	}
	if err != nil {
		return Statement{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

func decode(text []byte) (s Statement, err error) {
	var all statement.Statement
	if err := protojson.Unmarshal(text, &all); err != nil {
		return s, err
	}
	if err := all.Validate(); err != nil {
		return s, err
	}
	if all.Type != statement.StatementTypeUri || all.PredicateType != predicateType {
		return s, fmt.Errorf("it is a %q with a %q", all.Type, all.PredicateType)
	}
	var p predicate.Provenance
	if err := convert(all.Predicate, &p); err != nil {
		return s, err
	}
	if err := p.Validate(); err != nil {
		return s, err
	}
	if err := checkType(p.BuildDefinition.BuildType); err != nil {
		return s, err
	}
	if s.Subjects, err = digests(all.Subject); err != nil {
		return s, err
	}
	s.Inputs, err = digests(p.BuildDefinition.ResolvedDependencies)
	return s, err
}

// digests returns the SHA-256 of resources by their URIs or names, each of which occurs once.
// checkType checks the type of a build, whose end is the version of the statement.
func checkType(t string) error {
	if t == typeBuild || t == typeDelta {
		return nil
	}
	for _, ours := range []string{typeBuild, typeDelta} {
		version, is := strings.CutPrefix(t, strings.TrimSuffix(ours, "1"))
		if n, err := strconv.Atoi(version); is && err == nil {
			return pinset.CheckVersion(n, 1)
		}
	}
	return fmt.Errorf("it is about a build of type %q", t)
}

func digests(all []*statement.ResourceDescriptor) (map[string]string, error) {
	sums := map[string]string{}
	for _, r := range all {
		key, sum := r.GetUri(), r.GetDigest()[statement.AlgorithmSHA256.String()]
		if key == "" {
			key = r.GetName()
		}
		if key == "" || sum == "" || sums[key] != "" {
			return nil, fmt.Errorf("resource %q: it has no name, no SHA-256, or is repeated", key)
		}
		sums[key] = sum
	}
	return sums, nil
}
