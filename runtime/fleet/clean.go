package fleet

import (
	"reflect"
	"strings"
	"unicode"
)

// Clean replaces what is no printable character in all texts of a report: a line feed would make a line of its own,
// as one that says that all nodes are ready.
func (o *Object) Clean() { clean(reflect.ValueOf(o).Elem()) }

func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(strings.Map(printable, v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			clean(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			clean(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() { // not those of time.Time
				clean(v.Field(i))
			}
		}
	}
}

// line makes one line of printable characters of the name of a file, which whoever made a stick chose.
func line(text string) string { return strings.Map(printable, text) }

// lineError is an error that names such a file.
type lineError struct{ error }

func (e lineError) Error() string { return line(e.error.Error()) }

func (e lineError) Unwrap() error { return e.error }

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
