package sbom

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNotSBOM says that a file is no inventory that SPDX or CycloneDX of this package has written.
var ErrNotSBOM = errors.New("not an inventory of pinbox")

// maxCounted is the limit for an inventory in bytes: that of an OpenShift release, with 200 images of 400 packages
// each, has a fourth of them.
const maxCounted = 128 << 20

// counted are the fields of both forms that Count needs.
type counted struct {
	Packages []struct {
		ID      string `json:"SPDXID"`
		Name    string `json:"name"`
		Version string `json:"versionInfo"`
	} `json:"packages"`
	Relationships []struct {
		From string `json:"spdxElementId"`
		To   string `json:"relatedSpdxElement"`
		Type string `json:"relationshipType"`
	} `json:"relationships"`
	Components []struct {
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"components"`
	Dependencies []struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	} `json:"dependencies"`
}

// Count reads an inventory in one of the Formats, and returns how many packages it lists of each image, by its pin.
func Count(r io.Reader) (map[string]int, error) {
	limited := &io.LimitedReader{R: r, N: maxCounted + 1}
	var d counted
	err := json.NewDecoder(limited).Decode(&d)
	if limited.N <= 0 {
		err = fmt.Errorf("it has more than %d MiB", maxCounted>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSBOM, err)
	}
	const prefix = "SPDXRef-" // of the identifiers of SPDX
	pins := map[string]string{}
	for _, p := range d.Packages {
		pins[strings.TrimPrefix(p.ID, prefix)] = p.Name + "@" + p.Version
	}
	for _, c := range d.Components {
		pins[c.Ref] = c.Name + "@" + c.Version
	}
	counts := map[string]int{}
	for id, pin := range pins {
		if id == key("Image", pin) {
			counts[pin] = 0
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%w: it has no image", ErrNotSBOM)
	}
	count := func(image, part string) {
		if _, ok := counts[pins[image]]; ok && strings.HasPrefix(part, "Package-") {
			counts[pins[image]]++
		}
	}
	for _, r := range d.Relationships {
		if r.Type == "CONTAINS" {
			count(strings.TrimPrefix(r.From, prefix), strings.TrimPrefix(r.To, prefix))
		}
	}
	for _, d := range d.Dependencies {
		for _, part := range d.On {
			count(d.Ref, part)
		}
	}
	return counts, nil
}
