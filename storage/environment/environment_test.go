package environment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/environment"
)

func TestHome(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for home, want := range map[string]string{
		dir: dir, missing: missing, file: "/nonexistent", os.DevNull: "/nonexistent",
	} {
		t.Setenv("HOME", home)
		if got := environment.Home(); got != want {
			t.Errorf("HOME=%s: got %s, want %s", home, got, want)
		}
	}
}

// Prepare warns once of a missing $XDG_RUNTIME_DIR. A bug was that containers/image warned at every
// request.
func TestPrepareWarnsOnce(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("XDG_RUNTIME_DIR", missing)
	t.Setenv("HOME", os.DevNull)
	warnings, err := environment.Prepare()
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], missing) {
		t.Errorf("got the warnings %q, %v, want one of %s", warnings, err, missing)
	}
	if home := os.Getenv("HOME"); home != "/nonexistent" {
		t.Errorf("got HOME=%s, want /nonexistent", home)
	}
	if warnings, err := environment.Prepare(); err != nil || len(warnings) > 0 {
		t.Errorf("a second call: got the warnings %q, %v, want none", warnings, err)
	}
}

// An empty variable means what it means without it. A bug was that the user's policy.json was looked for in no folder.
func TestEmptyVariableIsNone(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	if _, err := environment.Prepare(); err != nil {
		t.Fatal(err)
	}
	if value, ok := os.LookupEnv("XDG_CONFIG_HOME"); ok {
		t.Errorf("got XDG_CONFIG_HOME=%q, want none", value)
	}
}

// Go ignores a proxy that it cannot read. A bug was that nothing said so.
func TestProxyThatIsNoURL(t *testing.T) {
	for value, warned := range map[string]bool{
		"": false, "proxy.example.com:3128": false, "http://proxy.example.com": false, "http://a:b%25c@proxy.example.com": false,
		"http://a:b%c@proxy.example.com": true, "a:b%c@proxy.example.com:3128": true,
	} {
		t.Setenv("HTTPS_PROXY", value)
		warnings, err := environment.Prepare()
		got := strings.Join(warnings, "\n")
		if err != nil || strings.Contains(got, "HTTPS_PROXY") != warned || strings.Contains(got, "b%c") {
			t.Errorf("HTTPS_PROXY=%s: got the warnings %q, %v, want one of it %v, without its value", value, got, err, warned)
		}
	}
}
