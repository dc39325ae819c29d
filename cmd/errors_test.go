package cmd_test

import (
	"regexp"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

var errorNumber = regexp.MustCompile("(?m)^\\| `([A-Z]{3}-[0-9]+-([0-9]{3}))` \\| ")

// docs/errors.md lists the errors of the two tables. The number of an error is its own, and stays: a new error gets one
// that no other has had, since people search for it.
func TestErrorsOfTheDocsGolden(t *testing.T) {
	text := "# Errors\n" +
		"The hint of an error ends with its code, such as `[PBX-3-014]`, and with `--output json` the code is the field `code`.\n" +
		"It is of the program (PBX is `pinbox`, PBN `pinbox-node`), the exit code and the number of the error. The number stays\n" +
		"with the error in later releases. An error message says in addition what is wrong, and where.\n"
	for _, program := range programs {
		r := run(t, program, "errors")
		if r.code != 0 {
			t.Fatalf("%s errors: got exit code %d, want 0\n%s", program, r.code, r.errOut)
		}
		owners := map[string]string{}
		for _, m := range errorNumber.FindAllStringSubmatch(r.out, -1) {
			if other := owners[m[2]]; other != "" {
				t.Errorf("%s: got the number of %s for %s, too, want its own", program, other, m[1])
			}
			owners[m[2]] = m[1]
		}
		if len(owners) < 40 || owners["000"] != "" {
			t.Errorf("%s: got %d errors, want 40 at least, each with a number", program, len(owners))
		}
		text += "\n## " + program + "\n" + r.out
	}
	fixtures.Golden(t, "../../docs/errors.md", []byte(text))
}
