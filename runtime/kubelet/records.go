package kubelet

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
)

// Dir is the folder of the kubelet's state.
const Dir = "/var/lib/kubelet"

// The folders below Dir with one file for each pull that has not ended, and for each image that
// was pulled: pkg/kubelet/images/pullmanager/fs_pullrecords.go, since Kubernetes 1.35.
const (
	pullingDir = "image_manager/pulling"
	pulledDir  = "image_manager/pulled"
)

// maxRecord limits a file. The kubelet keeps 100 credentials for an image: writeRecordWhileMatchingLimit
// in image_pull_manager.go.
const maxRecord = 1 << 20

// Record is a file because of which the kubelet asks a registry before a pod may use an image,
// although the image is there.
type Record struct {
	Path string
	// Image is a name of the image.
	Image string
	// Pulling means that the pull has not ended, as far as the kubelet knows. When it starts and the
	// image is there, it replaces the record with one of a pull with unknown credentials.
	Pulling bool
}

// String says what the record does.
func (r Record) String() string {
	when := "now"
	if r.Pulling {
		when = "from its next start on"
	}
	return fmt.Sprintf("the kubelet asks a registry for %s %s, although a store has it, because of a pull that did not "+
		"end: %s", r.Image, when, r.Path)
}

// Blocking returns the records that are about images of stores: names has the IDs of the images by
// their names. Pulls of other images need the registry anyway.
func Blocking(dir string, names map[string]string) (blocking []Record, err error) {
	err = readRecords(filepath.Join(dir, pullingDir), func(path string, r pullRecord) {
		if _, ok := names[r.Image]; ok {
			blocking = append(blocking, Record{path, r.Image, true})
		}
	})
	if err != nil {
		return nil, err
	}
	byID := map[string]string{}
	for name, id := range names {
		if byID[id] == "" || name < byID[id] {
			byID[id] = name
		}
	}
	err = readRecords(filepath.Join(dir, pulledDir), func(path string, r pullRecord) {
		// CRI-O's IDs have no prefix.
		if name, ok := byID[strings.TrimPrefix(r.ImageRef, "sha256:")]; ok && len(r.CredentialMapping) == 0 {
			blocking = append(blocking, Record{path, name, false})
		}
	})
	return blocking, err
}

// pullRecord has the fields of both kinds that matter here: ImagePullIntent and ImagePulledRecord in
// k8s.io/kubelet/config/v1beta1.
type pullRecord struct {
	Image             string                     `json:"image"`
	ImageRef          string                     `json:"imageRef"`
	CredentialMapping map[string]json.RawMessage `json:"credentialMapping"`
}

// readRecords calls take with each record in a folder. A folder or a file that is missing has none.
func readRecords(dir string, take func(path string, r pullRecord)) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.Ignore(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "sha256-") || strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		r, err := readRecord(path)
		if err := fault.Ignore(err, fs.ErrNotExist); err != nil {
			return fmt.Errorf("the kubelet's record of a pull, %s: %w", path, err)
		}
		take(path, r)
	}
	return nil
}

func readRecord(path string) (r pullRecord, err error) {
	f, err := input.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	switch {
	case err != nil:
		return r, err
	case len(content) > maxRecord:
		return r, fmt.Errorf("more than %d bytes", maxRecord)
	}
	return r, json.Unmarshal(content, &r)
}

// Running reports whether a kubelet with this folder of its state runs: it listens on the socket of its
// PodResources API (pkg/kubelet/apis/podresources/constants.go), whatever unit, container or program it is.
func Running(dir string) bool {
	conn, err := net.Dial("unix", filepath.Join(dir, "pod-resources/kubelet.sock"))
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}
