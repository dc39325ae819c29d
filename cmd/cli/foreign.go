package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
)

// lastLines is how long the end of a program waits for lines that are still on their way.
const lastLines = time.Second

// Foreign makes lines of this program of what libraries write to os.Stderr, and the programs that they run, such as
// helpers for credentials: with a note where errors are JSON. It is for main. end waits for the last of them; a program
// that goes on after it writes to nobody.
func Foreign(stderr io.Writer, args []string) (end func()) {
	r, w, err := os.Pipe()
	if err != nil { // there are no descriptors left, which the command reports
		return func() {}
	}
	own := os.Stderr
	os.Stderr = w
	logrus.SetOutput(w)
	logrus.SetFormatter(message{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay(printable{Writer: stderr, errors: true, unread: func() {}}, r, wantsObjects(args))
	}()
	return func() {
		os.Stderr = own
		_, _ = w.Close(), r.SetReadDeadline(time.Now().Add(lastLines)) // a program may still hold the other end
		<-done
	}
}

// relay writes lines, or objects with them as a note.
func relay(to io.Writer, from io.Reader, objects bool) {
	for lines := bufio.NewReaderSize(from, 64<<10); ; {
		line, _, err := lines.ReadLine()
		switch {
		case err != nil:
			return
		case len(line) == 0:
		case objects:
			_ = json.NewEncoder(to).Encode(struct {
				Note string `json:"note"`
			}{string(line)})
		default:
			fmt.Fprintf(to, "%s\n", line)
		}
	}
}

// wantsObjects reports whether a command line asks for JSON or YAML: the first lines may come before it is parsed.
func wantsObjects(args []string) bool {
	n := slices.IndexFunc(args, func(arg string) bool { return arg == "--output" || strings.HasPrefix(arg, "--output=") })
	if n < 0 {
		return false
	}
	_, form, ok := strings.Cut(args[n], "=")
	if !ok && n+1 < len(args) {
		form = args[n+1]
	}
	return form == "json" || form == "yaml"
}

// ShowRequests makes lines of what the library for registries asks of whom, and of which credentials it takes, or of
// all that it does. It logs both.
func ShowRequests(all bool) {
	logrus.SetLevel(logrus.DebugLevel)
	logrus.SetFormatter(message{all: all, requests: !all})
}

// requestLines are how the lines begin that ShowRequests shows: those of go.podman.io/image, in docker and
// pkg/docker/config.
var requestLines = []string{
	"GET ", "HEAD ", "POST ", "Ping ", "Too many requests ", "Returning credentials ", "Found credentials ",
	"Looking up in credential helper ", "No credentials for ",
}

// message is a format of logrus: the level, if it is not the usual one, and the message. Of what is for debugging, it
// has the requests, or all.
type message struct{ all, requests bool }

func (m message) Format(e *logrus.Entry) ([]byte, error) {
	request := m.requests && slices.ContainsFunc(requestLines, func(prefix string) bool {
		return strings.HasPrefix(e.Message, prefix)
	})
	switch {
	case e.Level == logrus.DebugLevel && !request && !m.all:
		return nil, nil
	case e.Level == logrus.InfoLevel:
		return []byte(e.Message + "\n"), nil
	case request:
		line, _, _ := strings.Cut(e.Message, " (&") // the error of a Ping again, as Go code
		return []byte(line + "\n"), nil
	}
	return fmt.Appendf(nil, "%s: %s\n", e.Level, e.Message), nil
}
