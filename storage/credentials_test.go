package storage

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Invalid credentials for one registry do not affect the others, and no secret is in a warning.
func TestInvalidCredentials(t *testing.T) {
	const good = `"auth":"bWU6c2VjcmV0"`
	for name, c := range map[string]struct {
		auths   string
		want    []string // registries
		warning string
	}{
		"a password before": {`{"hunter2@a":{"auth":"%"},"b":{` + good + `}}`, []string{"b"}, "for a are left out"},
		"all are good":      {`{"a":{` + good + `},"b/c":{` + good + `,"email":"x"}}`, []string{"a", "b/c"}, ""},
		"a helper's mark":   {`{"a":{},"b":{` + good + `}}`, []string{"a", "b"}, ""},
		"not base64": {
			`{"a":{"auth":"hunter2!"},"b":{` + good + `}}`, []string{"b"}, "for a are left out: its auth is not base64",
		},
		"no colon": {
			`{"a":{"auth":"aHVudGVyMg=="},"b":{` + good + `}}`, []string{"b"}, "for a are left out: its auth has no colon",
		},
		"of another type": {
			`{"a":"hunter2","b":{` + good + `}}`, []string{"b"}, "for a are left out: it is not an object of strings",
		},
		"a list":             {`{"a":{"auth":["hunter2"]},"b":{` + good + `}}`, []string{"b"}, "for a are left out"},
		"an identity number": {`{"a":{"identitytoken":7},"b":{` + good + `}}`, []string{"b"}, "for a are left out"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "auth.json")
			if err := os.WriteFile(path, []byte(`{"credHelpers":{"x":"y"},"auths":`+c.auths+`}`), 0o600); err != nil {
				t.Fatal(err)
			}
			credentials, err := ReadCredentials(path)
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(credentials.Path)
			if err != nil {
				t.Fatal(err)
			}
			var file struct {
				Auths       map[string]struct{ Auth string }
				CredHelpers map[string]string
			}
			if err := json.Unmarshal(content, &file); err != nil || file.CredHelpers["x"] != "y" {
				t.Errorf("got %+v, %v, want also the helper of x", file, err)
			}
			got := slices.Sorted(maps.Keys(file.Auths))
			warnings := strings.Join(credentials.Warnings, "\n")
			if !slices.Equal(got, c.want) || !strings.Contains(warnings, c.warning) || (warnings == "") != (c.warning == "") {
				t.Errorf("got entries for %q and warnings %q, want %q and %q", got, warnings, c.want, c.warning)
			}
			if strings.Contains(warnings, "hunter2") {
				t.Errorf("got a secret in the warnings %q", warnings)
			}
			if err := credentials.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An invalid helper does not affect the other ones.
func TestInvalidCredentialHelper(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	if err := os.WriteFile(path, []byte(`{"credHelpers":{"a":7,"b":"x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials, err := ReadCredentials(path)
	if err != nil || len(credentials.Warnings) != 1 || string(credentials.Content) != `{"credHelpers":{"b":"x"}}` {
		t.Errorf("got %s, warnings %q, %v, want only the helper of b, and one warning", credentials.Content,
			credentials.Warnings, err)
	}
	if err := credentials.Close(); err != nil {
		t.Error(err)
	}
}
