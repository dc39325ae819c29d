package storage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCredentialsOfOneRegistryHarmNoOther(t *testing.T) {
	const good = `"auth":"bWU6c2VjcmV0"`
	for name, c := range map[string]struct {
		auths string
		left  []string // registries
		warns string
	}{
		"all are good":       {`{"a":{` + good + `},"b/c":{` + good + `,"email":"x"}}`, []string{"a", "b/c"}, ""},
		"a helper's mark":    {`{"a":{},"b":{` + good + `}}`, []string{"a", "b"}, ""},
		"not base64":         {`{"a":{"auth":"hunter2!"},"b":{` + good + `}}`, []string{"b"}, "for a are left out: its auth is not base64"},
		"no colon":           {`{"a":{"auth":"aHVudGVyMg=="},"b":{` + good + `}}`, []string{"b"}, "for a are left out: its auth has no colon"},
		"of another type":    {`{"a":"hunter2","b":{` + good + `}}`, []string{"b"}, "for a are left out: it is no object of texts"},
		"a list":             {`{"a":{"auth":["hunter2"]},"b":{` + good + `}}`, []string{"b"}, "for a are left out"},
		"an identity number": {`{"a":{"identitytoken":7},"b":{` + good + `}}`, []string{"b"}, "for a are left out"},
	} {
		path := filepath.Join(t.TempDir(), "auth.json")
		if err := os.WriteFile(path, []byte(`{"credHelpers":{"x":"y"},"auths":`+c.auths+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		credentials, err := ReadCredentials(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
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
			t.Errorf("%s: %v %+v", name, err, file)
		}
		var left []string
		for registry := range file.Auths {
			left = append(left, registry)
		}
		slices.Sort(left)
		warnings := strings.Join(credentials.Warnings, "\n")
		if !slices.Equal(left, c.left) || !strings.Contains(warnings, c.warns) || (warnings == "") != (c.warns == "") {
			t.Errorf("%s: %q, %q", name, left, warnings)
		}
		if strings.Contains(warnings, "hunter2") {
			t.Errorf("%s: a secret is told: %s", name, warnings)
		}
		if err := credentials.Close(); err != nil {
			t.Error(err)
		}
	}
}
