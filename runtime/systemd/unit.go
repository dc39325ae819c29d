package systemd

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"text/template"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/fault"
)

//go:embed store.mount
var templates embed.FS

// ErrPath is a path that a unit cannot contain without quoting.
var ErrPath = fault.New(fault.Input, "the path has characters other than letters, digits and ._-/",
	"move the store to another folder, or leave out --in-place to copy it")

var unitPath = regexp.MustCompile(`^/[A-Za-z0-9/._-]+$`)

// unitName is the name of the mount unit of a path: systemd.mount(5).
func unitName(where string) string { return unit.UnitNamePathEscape(where) + ".mount" }

// render returns the unit of a mount, which is bound to the units of its bases.
func render(m mount.Mount) (string, error) {
	if !unitPath.MatchString(m.What) {
		return "", fmt.Errorf("%s: %w", m.What, ErrPath)
	}
	t, err := template.New("store.mount").Funcs(template.FuncMap{"unit": unitName, "join": strings.Join,
		"plain": plain}).ParseFS(templates, "store.mount")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, m)
	return b.String(), err
}

// plain replaces the characters that have a meaning in a unit.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '%' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, s)
}
