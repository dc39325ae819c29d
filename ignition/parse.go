package ignition

import (
	"encoding/json"
	"fmt"
	"strings"

	ign "github.com/coreos/ignition/v2/config"
	ignutil "github.com/coreos/ignition/v2/config/util"
	igntypes "github.com/coreos/ignition/v2/config/v3_7_experimental/types"
	"github.com/coreos/vcontext/report"
)

// parse parses a configuration of a version that systems have. Its error names each item that Ignition reports.
func parse(config []byte) (igntypes.Config, error) {
	c, _, err := parseStrictly(config)
	return c, err
}

// parseStrictly also returns the warnings, "" if there are none.
func parseStrictly(config []byte) (c igntypes.Config, warnings string, err error) {
	if v, _, err := ignutil.GetConfigVersion(config); err == nil &&
		(v.Major != 3 || v.Minor > 6 || v.PreRelease != "") {
		return c, "", fmt.Errorf("it has version %s, and this pinbox knows 3.0 to 3.6", v)
	}
	c, findings, err := ign.Parse(config)
	if err != nil {
		return c, "", fmt.Errorf("%w: %s", err, explain(config, findings))
	}
	return c, explain(config, findings), nil
}

// explain lists the findings of Ignition, each with the name of the item that it is about.
func explain(config []byte, findings report.Report) string {
	if len(findings.Entries) == 0 {
		return ""
	}
	var doc any
	_ = json.Unmarshal(config, &doc) // without it, the places are listed alone
	var all []string
	for _, f := range findings.Entries {
		text := oneLine(f.String())
		if name := nameAt(doc, f.Context.Path); name != "" {
			text = name + ": " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// nameAt returns the name of the innermost named item on the way to a place in a document; "" if there is none.
func nameAt(doc any, place []any) (name string) {
	for _, step := range place {
		switch at := doc.(type) {
		case map[string]any:
			key, _ := step.(string)
			doc = at[key]
		case []any:
			n, isNumber := step.(int)
			if !isNumber || n < 0 || n >= len(at) {
				return name
			}
			doc = at[n]
		}
		fields, _ := doc.(map[string]any)
		for _, key := range []string{"path", "name", "device"} {
			if s, isText := fields[key].(string); isText && s != "" {
				name = s
			}
		}
	}
	return name
}
