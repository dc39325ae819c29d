package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
)

// Names in what others made reach the terminal: of images, of files, labels, and the errors of a registry. A bug
// was to write ESC and its like as they are.
func TestNamesDoNotSteerTheTerminal(t *testing.T) {
	r := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/v2/") {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"errors":[{"code":"UNKNOWN","message":"\u001b[2J\u009b\u202e"}]}`)) // it may be gone
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	const evil = "\x1b[2J\u009b\u202e"
	layout := filepath.Dir(write(t, "index.json",
		fmt.Appendf(nil, `{"manifests":[{"digest":%q,"annotations":{"org.opencontainers.image.ref.name":"%s"}}]}`, someDigest,
			`\u001b[2J\u009b\u202e`)))
	iso, err := os.ReadFile(fixtures.LiveISO(t))
	if err != nil {
		t.Fatal(err)
	}
	copy(iso[16*2048+40:], evil) // the volume identifier: ECMA-119, 8.4.7
	for name, args := range map[string][]string{
		"an image of a layout":   {"plan", "--oci", layout},
		"a label":                {"inspect", write(t, "label.iso", iso)},
		"an error of a registry": {"plan", "--image", r.Host + "/a@" + someDigest, "--insecure-registry", r.Host},
		"a file": {
			"lint", filepath.Dir(write(t, evil+".yaml", []byte("kind: Pod\nspec: {containers: [{image: 'quay.io/a:latest'}]}\n"))),
		},
		"a file that is no set": {"plan", "--set", write(t, evil+".yaml", sample.Set("worker", "a"))},
		"a document":            {"inspect", lockBeside(t, evil+".txt")},
		"an argument":           {"verify", filepath.Join(t.TempDir(), evil)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, output := range []string{"text", "json"} {
				_, stdout, stderr := pinbox(t.Context(), append(args, "--output", output)...)
				all := stdout + stderr
				if i := strings.IndexFunc(all, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
					t.Errorf("%s: got %q", output, all[i:])
				}
				if lower := strings.ToLower(all); !strings.Contains(lower, `202e`) || !strings.Contains(lower, "1b[2j") {
					t.Errorf("%s: got %q, want the name with escapes", output, all)
				}
			}
		})
	}
}

// lockBeside returns a folder with a lock and an empty file.
func lockBeside(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = filepath.Dir(write(t, name, nil))
	lock := filepath.Join(fixtures.Root(t), "fixtures/golden", layout.LockFile)
	if err := os.Symlink(lock, filepath.Join(dir, layout.LockFile)); err != nil {
		t.Fatal(err)
	}
	return dir
}
