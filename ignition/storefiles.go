package ignition

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	ign "github.com/coreos/ignition/v2/config"

	"github.com/pinbox/pinbox/runtime/provision"
)

// storePath matches the paths that a unit can contain without quoting.
var storePath = regexp.MustCompile(`^/[A-Za-z0-9/._@:+-]+$`)

// StoreFileCandidates lists the files that the store could have, the largest first: sets, and the
// files of snippets that only one snippet names. The files that pin the images and mount the store
// stay in the configuration.
func (c Config) StoreFileCandidates() ([]provision.File, error) {
	all := c.SetFiles()
	named := map[string]int{}
	for _, s := range c.Snippets {
		translated, err := s.translate()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		files, err := candidates(translated, named)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		all = append(all, files...)
	}
	all = slices.DeleteFunc(all, func(f provision.File) bool {
		return named[f.Path] > 1 || !storePath.MatchString(f.Path)
	})
	slices.SortFunc(all, func(a, b provision.File) int {
		return cmp.Or(cmp.Compare(len(b.Content), len(a.Content)), cmp.Compare(a.Path, b.Path))
	})
	return all, nil
}

// candidates returns the files of a snippet that have their content in it, and adds to named how
// often each path is named.
func candidates(config []byte, named map[string]int) ([]provision.File, error) {
	parsed, _, err := ign.Parse(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrButane, err)
	}
	contents, err := Files(config)
	if err != nil {
		return nil, err
	}
	var files []provision.File
	for _, f := range parsed.Storage.Files {
		named[f.Path]++
		content, ok := contents[f.Path]
		if !ok || len(f.Append) > 0 {
			continue
		}
		mode := 0o644 // Ignition's own default
		if f.Mode != nil {
			mode = *f.Mode
		}
		files = append(files, provision.File{
			Path: f.Path, Mode: uint32(mode), Content: content,
			User: owner(f.User.Name, f.User.ID), Group: owner(f.Group.Name, f.Group.ID),
		})
	}
	return files, nil
}

func owner(name *string, id *int) string {
	switch {
	case name != nil && *name != "":
		return *name
	case id != nil:
		return strconv.Itoa(*id)
	}
	return "root"
}

// LargestPart returns the name and size of the largest part that has to stay in the configuration.
func (c Config) LargestPart() (name string, bytes int) {
	compare := func(part string, size int) {
		if size > bytes {
			name, bytes = part, size
		}
	}
	for _, f := range c.Kept() {
		compare(f.Path, len(f.Content))
	}
	compare("the list of SSH keys", len(strings.Join(c.SSHKeys, "\n")))
	for _, s := range c.Snippets {
		if translated, err := s.translate(); err == nil {
			if rest, err := c.without(translated); err == nil {
				compare(s.Name, len(rest))
			}
		}
	}
	return name, bytes
}

// without removes the files that the store has from a snippet. All else stays, the version too.
func (c Config) without(config []byte) ([]byte, error) {
	if len(c.StoreFiles) == 0 {
		return config, nil
	}
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, err
	}
	storage, _ := doc["storage"].(map[string]any)
	files, _ := storage["files"].([]any)
	kept := slices.DeleteFunc(files, func(f any) bool {
		fields, _ := f.(map[string]any)
		path, _ := fields["path"].(string)
		return c.InStore(path)
	})
	if len(files) > 0 {
		storage["files"] = kept
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}
