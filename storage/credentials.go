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
)

// Credentials are those of a containers-auth.json(5) file.
type Credentials struct {
	// Path of the file, or of a copy without what cannot be used.
	Path string
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
	content, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("credentials %w: %w", ErrAccess, err)
	}
	var file map[string]json.RawMessage
	var auths map[string]json.RawMessage
	if err := json.Unmarshal(content, &file); err != nil {
		return c, fmt.Errorf("credentials %w: %s: %w", ErrAccess, path, err)
	}
	if file["auths"] == nil && file["credHelpers"] == nil {
		return c, fmt.Errorf("credentials %w: %s has no auths", ErrAccess, path)
	}
	if raw := file["auths"]; raw != nil {
		if err := json.Unmarshal(raw, &auths); err != nil {
			return c, fmt.Errorf("credentials %w: %s: auths are no object", ErrAccess, path)
		}
	}
	for _, registry := range slices.Sorted(maps.Keys(auths)) {
		if wrong := checkEntry(auths[registry]); wrong != "" {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: the credentials for %s are left out: %s", path, registry, wrong))
			delete(auths, registry)
		}
	}
	if len(c.Warnings) == 0 {
		return c, nil
	}
	if file["auths"], err = json.Marshal(auths); err != nil {
		return c, err
	}
	return c, c.keep(file)
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
	f, err := os.CreateTemp("", "pinbox-auth-")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return errors.Join(err, f.Close())
	}
	c.Path, c.copy = fmt.Sprintf("/proc/self/fd/%d", f.Fd()), f
	return nil
}

// Close removes the copy, if there is one.
func (c Credentials) Close() error {
	if c.copy == nil {
		return nil
	}
	return c.copy.Close()
}
