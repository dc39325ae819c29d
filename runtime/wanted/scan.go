package wanted

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What CRI-O logs of a pull, as text or as JSON: server/image_pull.go, the same from 1.31 to 1.36. One that fails has
// no second line. A quote in a message has a backslash before it, so no message has these words as its own.
var (
	pullMessage = regexp.MustCompile(`msg"?[=:]"(Pulling|Pulled) image: ([^" ]+)`)
	requestID   = regexp.MustCompile(`\bid"?[=:]"?([0-9a-f-]{36})`)
)

// What the kubelet logs of a pod that waits, as text or as JSON: pkg/kubelet/pod_workers.go, with the messages of
// pkg/kubelet/images/image_manager.go. They are quoted twice.
const notSynced = `"Error syncing pod, skipping"`

var (
	waitMessage = regexp.MustCompile(
		`Back-off pulling image \\+"([^"\\ ]+)\\+"|` +
			`Container image \\+"([^"\\ ]+)\\+" is not present with pull policy of Never`)
	podField = regexp.MustCompile(
		`pod="([a-z0-9-]+)/([a-z0-9.-]+)"|"pod":\{"name":"([a-z0-9.-]+)","namespace":"([a-z0-9-]+)"\}`)
)

// maxLine is how much of a line is looked at, in bytes: one of the kubelet has the errors of all containers of a pod.
const maxLine = 64 << 10

// maxRequests bounds the pulls of which the end may follow.
const maxRequests = 1000

// Scan adds what a log of CRI-O and the kubelet says after the time Read. Lines without a time have that of the line
// before. An error is that of reading; what was read until then counts.
func (r *Record) Scan(log io.Reader) error {
	lines := bufio.NewReaderSize(log, maxLine)
	requests := map[string]string{} // names of images by the IDs of requests
	since, at := r.Read, r.Read
	begins := true // a line, and not the rest of a longer one, which may be text of others
	for {
		text, err := lines.ReadSlice('\n') // a longer line is read as several
		line := string(text)
		if logged := loggedAt(line); begins && !logged.IsZero() {
			at = logged
		}
		begins = !errors.Is(err, bufio.ErrBufferFull)
		if at.After(since) {
			if at.After(r.Read) {
				r.Read = at
			}
			if len(requests) > maxRequests {
				clear(requests)
			}
			r.line(line, at, requests)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && begins {
			return err
		}
	}
}

// line adds what a line says.
func (r *Record) line(line string, at time.Time, requests map[string]string) {
	if m := pullMessage.FindStringSubmatch(line); m != nil {
		id := ""
		if found := requestID.FindStringSubmatch(line); found != nil {
			id = found[1]
		}
		if m[1] == "Pulled" { // by another name than it was asked for
			r.remove(requests[id])
			delete(requests, id)
		} else if name := FullName(m[2]); name != "" {
			r.add(name, "", at, 1)
			requests[id] = name
		}
		return
	}
	if !strings.Contains(line, notSynced) {
		return
	}
	pod := ""
	if m := podField.FindStringSubmatch(line); m != nil {
		pod = cmp.Or(m[1], m[4]) + "/" + cmp.Or(m[2], m[3])
	}
	seen := map[string]bool{} // a line as JSON has each message twice
	for _, m := range waitMessage.FindAllStringSubmatch(line, -1) {
		name := FullName(cmp.Or(m[1], m[2]))
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		times := 0 // CRI-O's line has counted the pull
		if m[2] != "" {
			times = 1
		}
		r.add(name, pod, at, times)
	}
}

// loggedAt is the time that a line begins with: seconds, as journalctl prints them, or CRI-O's own. Zero if none.
func loggedAt(line string) time.Time {
	first, _, _ := strings.Cut(line, " ")
	if text, ok := strings.CutPrefix(first, `time="`); ok {
		at, _ := time.Parse(time.RFC3339Nano, strings.TrimSuffix(text, `"`))
		return at
	}
	whole, fraction, _ := strings.Cut(first, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	micro, fractionErr := strconv.ParseInt(fraction, 10, 64)
	if err != nil || fractionErr != nil || len(fraction) != 6 {
		return time.Time{}
	}
	return time.Unix(seconds, micro*1000).UTC()
}
