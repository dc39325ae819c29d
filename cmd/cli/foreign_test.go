package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

// Queries of URLs, and users before their hosts, are in no error and no note; results have what they have.
func TestSecretsOfURLs(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://s3.site.lan/blob?X-Amz-Credential=A&X-Amz-Signature=B": Bad Gateway`: `Get "https://s3.site.lan/blob?…": ` +
			`Bad Gateway`,
		"https://me:hunter2@host/a?b=c: no such host":      "https://host/a?…: no such host",
		"see https://host/a, or https://host/b.":           "see https://host/a, or https://host/b.",
		`{"error":"https://host/a?b=c\u0026d=e"}`:          `{"error":"https://host/a?…"}`,
		"what? https://host":                               "what? https://host",
		`{"error":"Get \"https://h/a?b=c\": EOF"}`:         `{"error":"Get \"https://h/a?…\": EOF"}`,
		`Get "https://h/a?fn=UTF-8''x&sig=S": EOF`:         `Get "https://h/a?…": EOF`,
		`ftp://me:pw@h/a?sig=S<b>, //h/%zz?sig=S`:          `ftp://h/a?…, //h/%zz?…`,
		`Location "/x?sig=S"`:                              `Location "/x?…"`,
		`Location "http://[::1/a\tb?sig=S\x01S": missing`:  `Location "http://[::1/a\tb?…": missing`,
		"is it a/b? No":                                    "is it a/b? No",
		`unauthorized: got "Authorization: Basic dTpw="`:   `unauthorized: got "Authorization: Basic …"`,
		`{"bearer eyJh.b-_c~d": "Bearer realm=\"https\""}`: `{"bearer …": "Bearer realm=\"https\""}`,
		"it wants basic authentication":                    "it wants basic authentication",
		`token body: EOF (body start "{\"token\":\"S\",")`: `token body: EOF (body start …)`,
	} {
		var errors, results bytes.Buffer
		fmt.Fprint(printable{Writer: &errors, errors: true}, text)
		fmt.Fprint(printable{Writer: &results}, text)
		if errors.String() != want || results.String() != text {
			t.Errorf("got the error %s and the result %s, want %s and %s", &errors, &results, want, text)
		}
	}
}

// What others write to stderr is a line of this program, and an object if its errors are.
func TestLinesOfOthers(t *testing.T) {
	const text = "deprecated \\u001b[1m https://host/a?…\nmore\n"
	const objects = `{"note":"deprecated \u001b[1m https://host/a?…"}` + "\n" + `{"note":"more"}` + "\n"
	for command, want := range map[string]string{
		"plan": text, "plan --output=text": text, "plan --output json": objects, "plan --output=yaml": objects,
	} {
		var out bytes.Buffer
		relay(printable{Writer: &out, errors: true}, io.MultiReader(
			strings.NewReader("deprecated \x1b[1m https://host/a?b=c\n"), strings.NewReader("\nmore"),
		), wantsObjects(strings.Fields(command)))
		if got := out.String(); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
}

// --verbose says what is asked of whom, and --debug all; without them nothing of it is said.
func TestRequestsOfTheLibrary(t *testing.T) {
	const request, other = `Ping https://host/v2/ err EOF (&url.Error{Op:"Get"})`, "Using SQLite blob info cache"
	for name, test := range map[string]struct {
		format message
		want   string
	}{
		"none":      {message{}, "warning: slow\n"},
		"--verbose": {message{requests: true}, "Ping https://host/v2/ err EOF\nwarning: slow\n"},
		"--debug":   {message{all: true}, "debug: " + request + "\ndebug: " + other + "\nwarning: slow\n"},
	} {
		var got []byte
		for _, e := range []*logrus.Entry{
			{Level: logrus.DebugLevel, Message: request}, {Level: logrus.DebugLevel, Message: other},
			{Level: logrus.WarnLevel, Message: "slow"},
		} {
			line, err := test.format.Format(e)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line...)
		}
		if string(got) != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
