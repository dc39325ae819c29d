package cmd_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Whoever writes another reader finds each field and each file in docs/format.md.
func TestFormatIsSpecified(t *testing.T) {
	text, err := os.ReadFile("../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## ")
	sections := map[string]string{}
	for section := range strings.SplitSeq(rest, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	for title, value := range map[string]any{
		"Lock": pinset.Lock{}, "Delta": pinset.Delta{}, "State of a node": stores.State{},
		"Status of a node": runtime.Status{}, "Configuration of a node": layout.NodeConfig{},
		"Store": struct {
			Layers []layout.Layer
			Images []layout.Image
			Others []layout.Container
		}{},
	} {
		keys := map[string]bool{}
		jsonKeys(reflect.TypeOf(value), keys)
		for key := range keys {
			if !strings.Contains(sections[title], "`"+key+"`") && !strings.Contains(sections[title], "`"+key+"[]`") {
				t.Errorf("section %q of docs/format.md says nothing of %q", title, key)
			}
		}
	}
	for _, name := range []string{
		layout.LayersFile, layout.LayersLock, layout.ImagesFile, layout.ImagesLock, layout.ContainersFile,
		layout.VolatileLayersFile, layout.VolatileContainersFile, layout.TarSplitFile("ID"), layout.LinksDir,
		layout.OwnLock, layout.OwnDelta, layout.OwnSets, layout.OwnFiles, layout.OwnProgram,
		layout.StoreFile, layout.DeltaStoreFile, layout.DeltaFile, layout.LockFile, layout.SumsFile,
		layout.MediumStore, layout.MediumLock, layout.MediumSums, layout.MediumSignature, layout.MediumBase,
		layout.MediumLabel, layout.PartitionLabel, layout.SlotsDir, layout.StatusPath, layout.NodeConfigPath,
		layout.NodeDir + "/" + layout.AttachedDir + "/" + layout.StateFile, "HEX" + layout.AttachedSuffix,
	} {
		if !strings.Contains(string(text), "`"+name) {
			t.Errorf("docs/format.md says nothing of %s", name)
		}
	}
}

// jsonKeys gathers the names that a type's fields have in JSON.
func jsonKeys(of reflect.Type, keys map[string]bool) {
	switch of.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Map:
		jsonKeys(of.Elem(), keys)
	case reflect.Struct:
		for i := range of.NumField() {
			field := of.Field(i)
			if !field.IsExported() {
				continue
			}
			if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "" {
				keys[key] = true
			}
			jsonKeys(field.Type, keys)
		}
	}
}
