package storage

import (
	"encoding/json"
	"fmt"
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
			`{"a":"hunter2","b":{` + good + `}}`, []string{"b"}, "for a are left out: it is no object of texts",
		},
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

// A helper that is none harms its own registry, and what comes through a pipe is kept.
func TestCredentialsOfOtherForms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	if err := os.WriteFile(path, []byte(`{"credHelpers":{"a":7,"b":"x"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials, err := ReadCredentials(path)
	if err != nil || len(credentials.Warnings) != 1 || string(credentials.Content) != `{"credHelpers":{"b":"x"}}` {
		t.Errorf("%v, %q, %s", err, credentials.Warnings, credentials.Content)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString(`{"auths":{}}`); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if credentials, err = ReadCredentials(fmt.Sprintf("/proc/self/fd/%d", r.Fd())); err != nil {
		t.Fatal(err)
	}
	defer credentials.Close()
	for range 2 {
		if content, err := os.ReadFile(credentials.Path); err != nil || string(content) != `{"auths":{}}` {
			t.Errorf("%v, %q", err, content)
		}
	}
}
