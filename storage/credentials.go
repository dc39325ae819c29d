package storage

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/input"
)

// Credentials are the usable entries of a containers-auth.json(5) file.
type Credentials struct {
	// Path is the file, or a copy without the entries that cannot be used.
	Path string
	// Content is the content of Path.
	Content []byte
	// Warnings name the entries that are left out, without their contents.
	Warnings []string
	copy     io.Closer
}

// ReadCredentials reads and checks a file. "" is no file. The library refuses a file with one
// invalid entry, and its error looks like a registry that refuses all credentials; so
// ReadCredentials leaves invalid entries out, and warns.
func ReadCredentials(path string) (c Credentials, err error) {
	c.Path = path
	if path == "" {
		return c, nil
	}
	if c.Content, err = input.Read(path); err != nil {
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
		if err := c.removeInvalid(file, key, check); err != nil {
			return c, err
		}
	}
	slices.Sort(c.Warnings)
	if len(c.Warnings) == 0 {
		return c, nil
	}
	return c, c.writeCopy(file)
}

// removeInvalid removes the invalid entries of the object under key, and adds a warning for each.
func (c *Credentials) removeInvalid(
	file map[string]json.RawMessage, key string, check func(json.RawMessage) string,
) (err error) {
	var entries map[string]json.RawMessage
	if file[key] == nil {
		return nil
	}
	if err := json.Unmarshal(file[key], &entries); err != nil {
		return fmt.Errorf("credentials %w: %s: %s is not an object", ErrAccess, c.Path, key)
	}
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		if problem := check(entries[registry]); problem != "" {
			name := registry[strings.LastIndex(registry, "@")+1:] // without a password before it
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: the credentials for %s are left out: %s", c.Path, name, problem))
			delete(entries, registry)
		}
	}
	file[key], err = json.Marshal(entries)
	return err
}

func checkHelper(entry json.RawMessage) string {
	if json.Unmarshal(entry, new(string)) != nil {
		return "its helper is not a string"
	}
	return ""
}

// checkEntry returns what is wrong with an entry, without its contents; "" if it is valid.
func checkEntry(entry json.RawMessage) string {
	var e struct {
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
	}
	if json.Unmarshal(entry, &e) != nil {
		return "it is not an object of strings"
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

// writeCopy writes a copy without a name, so that no other program finds it and it does not outlive
// this process.
func (c *Credentials) writeCopy(file map[string]json.RawMessage) error {
	content, err := json.Marshal(file)
	if err != nil {
		return err
	}
	c.Content = content
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
