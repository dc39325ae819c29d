package crio

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
)

// DefaultPolicy is the signature policy if CRI-O's configuration names no other.
const DefaultPolicy = "/etc/containers/policy.json"

// ErrPolicy means that CRI-O starts no container of an image, which lacks the signature that the policy
// demands. CRI-O compares it again when it makes a container: IsRunningImageAllowed in its internal/storage/image.go.
var ErrPolicy = fault.New(fault.Input, "the signature policy of the node does not admit images of the stores",
	"sign the images, and build with that policy (`pinbox build --policy`), or admit them in the policy")

// Policy is a signature policy: containers-policy.json(5).
type Policy struct {
	Default    []Demand                       `json:"default"`
	Transports map[string]map[string][]Demand `json:"transports"`
}

// Demand is one of the things that a policy demands of an image.
type Demand struct {
	// Type is insecureAcceptAnything, reject, signedBy or sigstoreSigned.
	Type string `json:"type"`
}

const acceptAnything = "insecureAcceptAnything"

// ReadPolicy reads the content of a policy.
func ReadPolicy(content []byte) (p Policy, err error) {
	if err := json.Unmarshal(content, &p); err != nil {
		return p, fmt.Errorf("%w: signature policy: %w", ErrConfig, err)
	}
	return p, nil
}

// Demands reports whether the policy demands anything of any image.
func (p Policy) Demands() bool {
	any := demand(p.Default) != ""
	for _, demands := range p.Transports["docker"] {
		any = any || demand(demands) != ""
	}
	return any
}

// Demand is the type of what an image of this name has to have, or that it is rejected; "" if nothing. The most
// specific scope of the name counts: PolicyContext.requirementsForImageRef in go.podman.io/image,
// signature/policy_eval.go.
func (p Policy) Demand(name string) string {
	for _, scope := range scopes(name) {
		if demands, ok := p.Transports["docker"][scope]; ok {
			return demand(demands)
		}
	}
	return demand(p.Default)
}

// scopes are those of the full name of an image, the most specific one first: DockerReferenceNamespaces in
// go.podman.io/image, docker/policyconfiguration.
func scopes(name string) []string {
	all := []string{name}
	part, _, _ := strings.Cut(name, "@")
	if tag := strings.LastIndex(part, ":"); tag > strings.LastIndex(part, "/") {
		part = part[:tag]
	}
	for slash := len(part); slash >= 0; slash = strings.LastIndex(part, "/") {
		part = part[:slash]
		all = append(all, part)
	}
	for domain, _, _ := strings.Cut(part, ":"); ; {
		_, parent, ok := strings.Cut(domain, ".")
		if !ok {
			return append(all, "") // all images of the transport
		}
		domain = parent
		all = append(all, "*."+domain)
	}
}

// demand is the first that is not met by any image.
func demand(all []Demand) string {
	for _, d := range all {
		if d.Type != acceptAnything {
			return d.Type
		}
	}
	return ""
}
