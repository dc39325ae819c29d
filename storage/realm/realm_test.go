package realm

import "testing"

func TestSameDomain(t *testing.T) {
	for _, c := range []struct {
		registry, realm string
		want            bool
	}{
		{"registry-1.docker.io", "auth.docker.io", true},
		{"quay.io", "quay.io", true},
		{"registry.gitlab.com", "gitlab.com", true},
		{"registry.redhat.io", "registry.redhat.io", true},
		{"registry.example.co.uk", "login.example.co.uk", true},
		{"Registry.Example.com", "auth.example.COM", true},
		{"registry.example.co.uk", "other.co.uk", false},
		{"me.github.io", "you.github.io", false},
		{"quay.io", "quay.io.example.com", false},
		{"registry", "registry", true},
		{"registry", "auth", false},
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "11.0.0.1", false},
		{"::1", "::1", true},
		{"::1", "::2", false},
	} {
		if got := sameDomain(c.registry, c.realm); got != c.want {
			t.Errorf("%s and %s: got %v, want %v", c.registry, c.realm, got, c.want)
		}
	}
}
