package iso

import (
	"os"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// What boots from a stick is not what boots from a CD if partition 1 has a tree of its own.
func TestDiskNotes(t *testing.T) {
	md5 := patch{16*sector + applicationUse, []byte("ISO MD5SUM = 0123456789abcdef0123456789abcdef;SKIPSECTORS = 15")}
	for name, test := range map[string]struct {
		options []string
		patches []patch
		want    string // of the only note; "" for none
	}{
		"plain":            {fixtures.LiveISOs["plain"], nil, ""},
		"as CoreOS":        {fixtures.LiveISOs["as CoreOS"], nil, ""},
		"partition offset": {[]string{"-rock", "-iso-level", "3", "-partition_offset", "16"}, nil, "begins at block 64 has a tree of its own"},
		"an implanted MD5": {fixtures.LiveISOs["plain"], []patch{md5}, "implanted MD5"},
		"a larger offset":  {[]string{"-rock", "-partition_offset", "32"}, nil, "begins at block 128"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(fixtures.LiveISO(t, test.options...))
			if err != nil {
				t.Fatal(err)
			}
			notes, err := open(t, apply(content, test.patches...)).DiskNotes()
			if err != nil || (test.want == "") != (len(notes) == 0) || len(notes) > 1 ||
				!strings.Contains(strings.Join(notes, "\n"), test.want) {
				t.Errorf("got the notes %q, %v, want one with %q", notes, err, test.want)
			}
		})
	}
}
