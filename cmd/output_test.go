package cmd_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/fixtures"
)

// YAML and JSON have the same content, and other formats are refused.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(fixtures.Root(t), "fixtures/golden/pinbox.lock.json")
	for _, line := range []string{
		"pinbox diff " + lock + " " + lock,
		"pinbox inspect " + lock,
		"pinbox cache ls --cache-dir " + dir,
		"pinbox-node version",
	} {
		args := strings.Fields(line)
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			get := func(form string) result { return run(t, args[0], append(args[1:], "--output", form)...) }
			inJSON, inYAML, inXML := get("json"), get("yaml"), get("xml")
			var want, got any
			if err := json.Unmarshal([]byte(inJSON.out), &want); err != nil || inJSON.code != 0 {
				t.Fatalf("json: got exit code %d and %v\n%s%s", inJSON.code, err, inJSON.out, inJSON.errOut)
			}
			if err := yaml.Unmarshal([]byte(inYAML.out), &got); err != nil || inYAML.code != 0 {
				t.Fatalf("yaml: got exit code %d and %v\n%s%s", inYAML.code, err, inYAML.out, inYAML.errOut)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("got other YAML than JSON (-json +yaml):\n%s", diff)
			}
			if strings.HasPrefix(inYAML.out, "{") {
				t.Errorf("yaml: got JSON:\n%s", inYAML.out)
			}
			if inXML.code != 2 || inXML.out != "" || !strings.Contains(inXML.errOut, "want text, json or yaml") {
				t.Errorf("xml: got exit code %d and %q", inXML.code, inXML.out+inXML.errOut)
			}
		})
	}
}
