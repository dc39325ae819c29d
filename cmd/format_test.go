package cmd_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/builder/provenance"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/aside"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/setup"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
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
			"Inventory": inspect.Version,
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

// Each document has a version, and a reader says of another one that it is newer or older, and never that it is
// damaged, or no such document.
func TestDocumentsOfOtherVersions(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sum := strings.Repeat("0", 64)
	statement, err := provenance.Build{Parameters: map[string]any{"appliance": "a"}}.Statement(map[string]string{"a": sum})
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(document string, version int) error{
		"lock": func(text string, _ int) error {
			_, err := artifact.ReadLock(file("pinbox.lock.json", text))
			return err
		},
		"lock of a store": func(text string, _ int) error {
			file(layout.OwnLock, text)
			_, err := layout.Open(os.DirFS(dir)).Lock()
			return err
		},
		"delta of a store": func(text string, _ int) error {
			file(layout.OwnDelta, text)
			_, err := layout.Open(os.DirFS(dir)).Delta()
			return err
		},
		"thin delta": func(_ string, version int) error {
			if version == 0 {
				version = -1 // without one it is none
			}
			_, err := pinset.DecodeDelta(strings.NewReader(
				fmt.Sprintf(`{"version":1,"bases":[],"needs":[],"thin":{"version":%d,"storeSize":1,"reads":[]}}`, version)))
			return err
		},
		"provenance": func(_ string, version int) error {
			text := strings.Replace(string(statement), "/build/v1", fmt.Sprintf("/build/v%d", version), 1)
			_, err := provenance.Decode(strings.NewReader(text))
			return err
		},
		"state of a node": func(text string, _ int) error {
			file("stores.d/"+layout.StateFile, text)
			_, err := stores.ReadState(filepath.Join(dir, "stores.d"))
			return err
		},
		"what is set aside": func(text string, _ int) error {
			file("aside.json", text)
			_, err := aside.Records{Dir: dir}.Images()
			return err
		},
		"configuration of a node": func(text string, _ int) error {
			_, err := layout.ReadNodeConfig(file("node.json", text))
			return err
		},
		"setup of a node": func(text string, _ int) error {
			return pinset.Decode(strings.NewReader(text), setup.ManifestVersion, new(setup.Manifest))
		},
		"cluster of a node": func(text string, _ int) error {
			_, err := cluster.Read(file(cluster.KnownFile, text))
			return err
		},
		"status of a node": func(text string, _ int) error {
			_, err := runtime.DecodeStatus(strings.NewReader(text))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for version, want := range map[int]error{0: pinset.ErrOlder, 2: pinset.ErrNewer, 99: pinset.ErrNewer} {
				checkOtherVersion(t, read(fmt.Sprintf(`{"version": %d, "colour": {"of": "no version 1"}}`, version), version), want)
			}
		})
	}
	_, err = fleet.Decode([]byte(`{"apiVersion":"pinbox.dev/v1","kind":"NodeImageStatus","metadata":{"name":"a"}}`))
	checkOtherVersion(t, err, pinset.ErrNewer)
	_, err = fleet.Decode([]byte(
		`{"kind":"List","items":[{"apiVersion":"pinbox.dev/v1","kind":"NodeImageStatus","metadata":{"name":"a"}}]}`))
	checkOtherVersion(t, err, pinset.ErrNewer)
}

func checkOtherVersion(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for _, word := range []string{"damaged", "corrupt", "invalid", "not a"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want no word %q", err, word)
		}
	}
	if f := fault.Of(err); f == nil || f.Exit != fault.Input {
		t.Errorf("%v: got %+v, want the exit code %d", err, f, fault.Input)
	}
}

// Whoever changes the form of a document raises its version: the golden file has the fields of each version.
func TestFormsGolden(t *testing.T) {
	var lines []string
	for title, value := range documents() {
		version := reflect.ValueOf(value).FieldByName("Version")
		if !version.IsValid() {
			continue
		}
		keys := map[string]bool{}
		jsonKeys(reflect.TypeOf(value), keys)
		lines = append(lines, fmt.Sprintf("%s: %s\n", title, strings.Join(slices.Sorted(maps.Keys(keys)), " ")))
	}
	slices.Sort(lines)
	fixtures.Golden(t, "forms.txt", []byte("# Fields of version 1 of each document. Others need another version.\n"+
		strings.Join(lines, "")))
}

// documents are the documents of pinbox by the section of docs/format.md.
func documents() map[string]any {
	return map[string]any{
		"Lock": pinset.Lock{}, "Delta": pinset.Delta{}, "State of a node": stores.State{},
		"Status of a node": runtime.Status{}, "Configuration of a node": layout.NodeConfig{},
		"Setup of a node": setup.Manifest{}, "Cluster of a node": cluster.Known{}, "Inventory": inspect.Inventory{},
		"Store": struct {
			Layers []layout.Layer
			Images []layout.Image
			Others []layout.Container
		}{},
	}
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
	for title, value := range documents() {
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
