package cmd_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/inventory"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/setup"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// docs/format.md has each field, version and limit, and the name of each file.
func TestFormatIsSpecified(t *testing.T) {
	content, err := os.ReadFile("../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	_, rest, _ := strings.Cut(text, "\n## ")
	sections := map[string]string{}
	for section := range strings.SplitSeq(rest, "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[title] = body
	}
	t.Run("fields", func(t *testing.T) { checkFields(t, sections) })
	t.Run("files", func(t *testing.T) { checkFiles(t, text) })
	t.Run("versions", func(t *testing.T) {
		for title, version := range map[string]int{
			"Lock": pinset.LockVersion, "Delta": pinset.DeltaVersion, "State of a node": stores.StateVersion,
			"Status of a node": runtime.StatusVersion, "Configuration of a node": layout.NodeConfigVersion,
			"Setup of a node": setup.ManifestVersion, "Cluster of a node": cluster.KnownVersion,
		} {
			checkLine(t, title, sections[title], fmt.Sprintf("| `version` | %d |", version))
		}
		checkLine(t, "Pack", sections["Pack"],
			fmt.Sprintf("| head | `pinbox pack v%s`, a line feed, a zero byte |", squashfs.PackVersion))
	})
	t.Run("limits", func(t *testing.T) {
		for what, bytes := range map[string]int64{
			"a JSON document of pinbox":                      document.MaxBytes,
			"what a node knows of its cluster":               cluster.MaxKnownBytes,
			"a lock, and the description of a delta":         pinset.MaxDocumentBytes,
			"an entry of a list in one of these":             pinset.MaxElementBytes,
			"all documents of a store together":              layout.MaxStoreBytes,
			"a file of sets in a store":                      layout.MaxSetBytes,
			"one record of a store":                          layout.MaxRecordBytes,
			"`sums.txt` and `SHA256SUMS`, on a node":         layout.MaxSums,
			"`sums.txt` and `SHA256SUMS`, on the build host": layout.MaxFolderSums,
		} {
			checkLine(t, "Limits", sections["Limits"], fmt.Sprintf("| %s | %g MiB |", what, float64(bytes)/(1<<20)))
		}
		checkLine(t, "Limits", sections["Limits"], fmt.Sprintf("| all records, sets and entries of lists in these | %d,%03d |",
			layout.MaxStoreRecords/1000, layout.MaxStoreRecords%1000))
	})
}

// checkLine checks that a section has a line.
func checkLine(t *testing.T, title, section, want string) {
	t.Helper()
	if !strings.Contains(section, "\n"+want+"\n") {
		t.Errorf("section %q of docs/format.md: got no line %q, want one", title, want)
	}
}

func checkFields(t *testing.T, sections map[string]string) {
	t.Helper()
	for title, value := range map[string]any{
		"Lock": pinset.Lock{}, "Delta": pinset.Delta{}, "State of a node": stores.State{},
		"Status of a node": runtime.Status{}, "Configuration of a node": layout.NodeConfig{},
		"Setup of a node": setup.Manifest{}, "Cluster of a node": cluster.Known{}, "Inventory": inventory.Inventory{},
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
				t.Errorf("section %q of docs/format.md: got no field %q, want it", title, key)
			}
		}
	}
}

func checkFiles(t *testing.T, text string) {
	t.Helper()
	for _, name := range []string{
		layout.LayersFile, layout.LayersLock, layout.ImagesFile, layout.ImagesLock, layout.ContainersFile,
		layout.VolatileLayersFile, layout.VolatileContainersFile, layout.TarSplitFile("ID"), layout.LinksDir,
		layout.OwnLock, layout.OwnDelta, layout.OwnSets, layout.OwnFiles, layout.OwnProgram,
		layout.StoreFile, layout.DeltaStoreFile, layout.DeltaFile, layout.LockFile, layout.SumsFile,
		layout.ProvenanceFile, layout.MediumStore, layout.MediumLock, layout.MediumSums, layout.MediumSignature,
		layout.MediumSumsSignature, layout.MediumBase,
		layout.MediumRootHash, layout.RootHashFile(layout.DeltaStoreFile), layout.BootPath, layout.StoreEnvPath,
		layout.StoreLink,
		layout.MediumLabel, layout.PartitionLabel, layout.SlotsDir, layout.StatusPath, layout.NodeConfigPath,
		setup.ManifestPath,
		layout.NodeDir + "/" + cluster.KnownFile,
		layout.NodeDir + "/" + layout.AttachedDir + "/" + layout.StateFile,
		layout.NodeDir + "/" + layout.AttachedDir + "/" + layout.StateCopy, "HEX" + layout.AttachedSuffix,
	} {
		if !strings.Contains(text, "`"+name) {
			t.Errorf("docs/format.md: got no file %s, want it", name)
		}
	}
}

// jsonKeys adds the JSON names of a type's fields to keys.
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
