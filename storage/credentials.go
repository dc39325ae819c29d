package storage

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/environment"
)

// Credentials are those of a containers-auth.json(5) file.
type Credentials struct {
	// Path of the file, or of a copy without what cannot be used, and what is in it.
	Path    string
	Content []byte
	// Warnings tell of entries that are left out, never what is in them.
	Warnings []string
	copy     io.Closer
}

// ReadCredentials finds out before the first request what would otherwise look
// like a registry that refuses everybody. The library takes no entry of a file with
// a bad one, so bad ones are left out: they harm the registries that they are for,
// if those want any credentials. "" stands for no file.
func ReadCredentials(path string) (c Credentials, err error) {
	c.Path = path
	if path == "" {
		return c, nil
	}
	if c.Content, err = os.ReadFile(path); err != nil {
		return c, fmt.Errorf("credentials %w: %w", ErrAccess, err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(c.Content, &file); err != nil {
		return c, fmt.Errorf("credentials %w: %s: %w", ErrAccess, path, err)
	}
	if file["auths"] == nil && file["credHelpers"] == nil {
		return c, fmt.Errorf("credentials %w: %s has no auths", ErrAccess, path)
	}
	for key, check := range map[string]func(json.RawMessage) string{"auths": checkEntry, "credHelpers": checkHelper} {
		if err := c.sift(file, key, check); err != nil {
			return c, err
		}
	}
	slices.Sort(c.Warnings)
	// What comes through a pipe can be read once.
	if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && len(c.Warnings) == 0 {
		return c, nil
	}
	return c, c.keep(file)
}

// sift takes out the entries under a key that cannot be used.
func (c *Credentials) sift(
	file map[string]json.RawMessage, key string, check func(json.RawMessage) string,
) (err error) {
	var entries map[string]json.RawMessage
	if file[key] == nil {
		return nil
	}
	if err := json.Unmarshal(file[key], &entries); err != nil {
		return fmt.Errorf("credentials %w: %s: %s is no object", ErrAccess, c.Path, key)
	}
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		if wrong := check(entries[registry]); wrong != "" {
			name := registry[strings.LastIndex(registry, "@")+1:] // a password may stand before it
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: the credentials for %s are left out: %s", c.Path, name, wrong))
			delete(entries, registry)
		}
	}
	file[key], err = json.Marshal(entries)
	return err
}

func checkHelper(entry json.RawMessage) string {
	if json.Unmarshal(entry, new(string)) != nil {
		return "its helper is no text"
	}
	return ""
}

// checkEntry says what is wrong with an entry, but not what it says.
func checkEntry(entry json.RawMessage) string {
	var e struct {
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
	}
	if json.Unmarshal(entry, &e) != nil {
		return "it is no object of texts"
	}
	decoded, err := base64.StdEncoding.DecodeString(e.Auth)
	switch {
	case err != nil:
		return "its auth is not base64"
	case len(decoded) > 0 && !strings.Contains(string(decoded), ":"):
		return "its auth has no colon between user and password"
	}
	return ""
}

// keep writes a copy that has no name, so that nobody finds it, whatever becomes of
// this process.
func (c *Credentials) keep(file map[string]json.RawMessage) error {
	content, err := json.Marshal(file)
	if err != nil {
		return err
	}
	if len(c.Warnings) > 0 {
		c.Content = content
	}
	f, err := environment.TempFile("")
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	c.copy = f
	if c.Path, err = environment.DescriptorPath(f); err != nil {
		return errors.Join(fmt.Errorf("credentials %w: %w", ErrAccess, err), f.Close())
	}
	return nil
}

// Close removes the copy, if there is one.
func (c Credentials) Close() error {
	if c.copy == nil {
		return nil
	}
	return c.copy.Close()
}
