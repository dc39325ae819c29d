package crio_test

import (
	"testing"

	"github.com/pinbox/pinbox/runtime/crio"
)

// The most specific scope of an image counts, and of another transport than docker none: containers-policy.json(5).
func TestDemandsOfAPolicy(t *testing.T) {
	const accept, reject, signed = `[{"type": "insecureAcceptAnything"}]`, `[{"type": "reject"}]`,
		`[{"type": "sigstoreSigned", "keyPath": "/etc/key.pub"}]`
	const name = "quay.io/site/app@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for title, c := range map[string]struct{ policy, want string }{
		"everything is accepted": {`{"default": ` + accept + `}`, ""},
		"nothing is":             {`{"default": ` + reject + `}`, "reject"},
		"a transport":            {`{"default": ` + accept + `, "transports": {"docker": {"": ` + signed + `}}}`, "sigstoreSigned"},
		"another transport":      {`{"default": ` + accept + `, "transports": {"atomic": {"": ` + signed + `}}}`, ""},
		"a host":                 {`{"default": ` + reject + `, "transports": {"docker": {"quay.io": ` + accept + `}}}`, ""},
		"a domain":               {`{"default": ` + accept + `, "transports": {"docker": {"*.io": ` + signed + `}}}`, "sigstoreSigned"},
		"a repository of a host": {`{"default": ` + accept + `, "transports": {"docker": {"quay.io": ` + accept + `, "quay.io/site": ` +
			signed + `}}}`, "sigstoreSigned"},
		"the image itself": {`{"default": ` + reject + `, "transports": {"docker": {"quay.io/site": ` + signed + `, "` + name + `": ` +
			accept + `}}}`, ""},
		"another host": {`{"default": ` + accept + `, "transports": {"docker": {"registry.redhat.io": ` + signed + `}}}`, ""},
		"two demands": {`{"default": [{"type": "insecureAcceptAnything"}, {"type": "signedBy", "keyType": "GPGKeys"}]}`,
			"signedBy"},
	} {
		t.Run(title, func(t *testing.T) {
			p, err := crio.ReadPolicy([]byte(c.policy))
			if got := p.Demand(name); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			if !p.Demands() && c.want != "" {
				t.Error("got a policy without demands")
			}
		})
	}
	if _, err := crio.ReadPolicy([]byte("[")); err == nil {
		t.Error("got no error for what is no JSON")
	}
}
