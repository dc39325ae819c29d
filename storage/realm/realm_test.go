package realm

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.podman.io/image/v5/docker/reference"
	imgtypes "go.podman.io/image/v5/types"
)

// What a build requests of a registry reg.example.com:6001 and of its mirror, in this order. The last request is
// refused, or none is. All others may have a password.
func TestRequestsThatTakeAPassword(t *testing.T) {
	const ping, manifest = "https://reg.example.com:6001/v2/", "https://reg.example.com:6001/v2/x/y/manifests/1"
	const token = "/token?account=user&scope=pull"
	for name, c := range map[string]struct {
		urls    string
		refused bool
		e       endpoint
	}{
		"its own server of tokens":         {ping + " https://reg.example.com:6001" + token + " " + manifest, false, endpoint{}},
		"one on another port":              {ping + " https://reg.example.com" + token + " " + manifest, false, endpoint{}},
		"one of its domain":                {ping + " https://auth.example.com" + token + " " + manifest, false, endpoint{}},
		"one of another domain":            {ping + " https://evil.test" + token, true, endpoint{}},
		"one without TLS":                  {ping + " http://auth.example.com" + token, true, endpoint{}},
		"one of another domain, by POST":   {ping + " https://evil.test/token", true, endpoint{identity: true}},
		"another domain without a name":    {ping + " https://cdn.test/layer", false, endpoint{}},
		"no password":                      {ping + " https://evil.test" + token, false, endpoint{insecure: true}},
		"after a redirect of the ping":     {ping + " " + ping + "ping https://evil.test" + token, true, endpoint{}},
		"after one to a manifest":          {ping + " " + manifest + " https://evil.test" + token, true, endpoint{}},
		"after one, without TLS":           {ping + " " + ping + "ping http://reg.example.com" + token, true, endpoint{}},
		"after one, by POST":               {ping + " " + ping + "ping https://evil.test/token", true, endpoint{identity: true}},
		"a token from another port":        {ping + " https://reg.example.com:6001" + token + " https://reg.example.com:6002" + token, true, endpoint{}},
		"a token from below":               {ping + " https://auth.example.com" + token + " https://sub.auth.example.com/t", true, endpoint{}},
		"a token from the same server":     {ping + " https://auth.example.com" + token + " https://auth.example.com:443/t", false, endpoint{}},
		"a token from another domain":      {ping + " https://auth.example.com" + token + " https://cdn.test/t", false, endpoint{}},
		"a manifest from another port":     {ping + " " + manifest + " https://reg.example.com:6002/m", true, endpoint{}},
		"a manifest from below":            {ping + " " + manifest + " https://s3.reg.example.com:6001/m", true, endpoint{}},
		"a manifest without TLS":           {ping + " " + manifest + " http://reg.example.com:6001/m", true, endpoint{}},
		"a manifest from another domain":   {ping + " " + manifest + " https://cdn.test/m?sig=1", false, endpoint{}},
		"a manifest from another path":     {ping + " " + manifest + " https://reg.example.com:6001/files/m", false, endpoint{}},
		"a second token":                   {ping + " https://auth.example.com" + token + " " + manifest + " https://auth.example.com" + token, false, endpoint{}},
		"a second one without TLS":         {ping + " https://auth.example.com" + token + " " + manifest + " https://auth.example.com" + token + " http://auth.example.com/t", true, endpoint{}},
		"a second one from another server": {ping + " https://auth.example.com" + token + " " + manifest + " https://sso.example.com" + token, true, endpoint{}},
		"the first, after content":         {ping + " " + ping + "x https://auth.example.com" + token + " http://auth.example.com/t", true, endpoint{}},
		"a token by way of the ping":       {ping + " https://auth.example.com" + token + " " + ping + " https://auth.example.com:9443/t", true, endpoint{}},
		"a manifest by way of the ping":    {ping + " " + manifest + " " + ping + " https://reg.example.com:9443/m", true, endpoint{}},
		"a ping that leads astray":         {ping + " https://cdn.test/ping https://auth.example.com" + token + " https://auth.example.com:9443/t", true, endpoint{}},
		"one that leads to another server": {ping + " https://sso.example.com" + token + " https://auth.example.com" + token, true, endpoint{}},
		"a host in other letters":          {ping + " " + manifest + " http://\uff52eg.example.com:8080/m", true, endpoint{}},
		"one in escaped letters":           {ping + " " + manifest + " http://%EF%BD%92eg.example.com:8080/m", true, endpoint{}},
		"one with a soft hyphen":           {ping + " https://auth.example.com" + token + " http://au\u00adth.example.com/t", true, endpoint{}},
		"one in capital letters":           {ping + " " + manifest + " http://REG.example.com:6001/m", true, endpoint{}},
		"a mirror that is down":            {"https://mirror.test/v2/ " + ping + " https://auth.example.com" + token + " " + manifest, false, endpoint{}},
		"a mirror that sends to the other": {"https://mirror.test/v2/ https://auth.example.com" + token, true, endpoint{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.e.host, c.e.password = "reg.example.com:6001", true
			r := &Realms{endpoints: []endpoint{{host: "mirror.test", password: true}, c.e}}
			checkRequests(t, r, c.urls, c.refused)
		})
	}
}

// The password of a mirror does not go on from the registry, to which the mirror has redirected.
func TestMirrorThatRedirectsToTheRegistry(t *testing.T) {
	const ping, source = "https://reg.example.com:5000/v2/", "https://reg.example.com/v2/"
	for name, c := range map[string]struct {
		urls    string
		refused bool
		source  endpoint
	}{
		"which has no password":   {ping + " " + ping + "m " + source + " http://reg.example.com:8080/m", true, endpoint{}},
		"which needs no TLS":      {ping + " " + ping + "m " + source + " http://reg.example.com:8080/m", true, endpoint{password: true, insecure: true}},
		"which has a password":    {ping + " " + ping + "m " + source + " https://reg.example.com:9443/m", true, endpoint{password: true}},
		"after a mirror's fault":  {ping + " " + source + " https://auth.example.com/token?account=a " + source + "m", false, endpoint{password: true}},
		"with a server of tokens": {ping + " " + source + " https://reg.example.com:7000/token?account=a " + source + "m", false, endpoint{password: true}},
		"of everybody's images":   {ping + " " + source + " https://auth.test/token " + source + "m https://cdn.test/m", false, endpoint{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.source.host = "reg.example.com"
			r := &Realms{endpoints: []endpoint{{host: "reg.example.com:5000", password: true}, c.source}}
			checkRequests(t, r, c.urls, c.refused)
		})
	}
}

// A name of one label has no domain of its own, and net/http sends its password to names below it.
func TestNamesOfOneLabel(t *testing.T) {
	r := &Realms{endpoints: []endpoint{{host: "localhost:5000", password: true}}}
	checkRequests(t, r, "https://localhost:5000/v2/ https://localhost:5000/v2/m http://sub.localhost/m", true)
}

// checkRequests makes requests in this order, of which the last one is refused, or none is.
func checkRequests(t *testing.T, r *Realms, requests string, refused bool) {
	t.Helper()
	urls := strings.Fields(requests)
	for n, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err, last := r.check(u), n == len(urls)-1; (err != nil) != (last && refused) {
			t.Errorf("%s: got %v, want it refused: %v", text, err, last && refused)
		}
	}
}

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

// A message about refused credentials names the entry that the library took, the most specific one.
func TestCredentialsThatAreUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.json")
	content := `{"auths": {"a.test": {"auth": "x"}, "a.test/team/app": {"auth": "x"}}, "credHelpers": {"b.test": "pass"}}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a.test/team/app":  "with the credentials for a.test/team/app in " + file,
		"a.test/team/more": "with the credentials for a.test in " + file,
		"b.test/app":       "with the credentials of the helper docker-credential-pass for b.test, in " + file,
		"c.test/app":       "there are no credentials for c.test",
	} {
		named, err := reference.ParseNormalizedNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Used(&imgtypes.SystemContext{AuthFilePath: file}, named); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
