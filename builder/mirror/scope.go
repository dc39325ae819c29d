package mirror

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// What the cluster's API accepts: config.openshift.io/v1, ImageDigestMirrors and ImageMirror.
const (
	label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
	host  = label + `(?:\.` + label + `)*(?::[0-9]+)?`
	path  = `(?:/[a-z0-9]+(?:(?:[._]|__|-*)[a-z0-9]+)*)*`
)

var (
	location = regexp.MustCompile(`^` + host + path + `$`)
	wildcard = regexp.MustCompile(`^\*(?:\.` + label + `)+$`)
	tag      = regexp.MustCompile(`^([^@]*?)(?::[^:/@]+)?(?:@.*)?$`)
)

// CheckSource checks the form of a source.
func CheckSource(s string) error {
	if wildcard.MatchString(s) {
		return nil
	}
	if strings.Contains(s, "*") {
		return fmt.Errorf("source %q: a wildcard stands for hosts, as in *.example.com", s)
	}
	if err := CheckMirror(s); err != nil {
		return fmt.Errorf("source %w", err)
	}
	return nil
}

// CheckMirror checks the form of a mirror. The error names no subject: the caller does.
func CheckMirror(s string) error {
	_, rest, scheme := strings.Cut(s, "://")
	bare := strings.TrimRight(rest, "/")
	switch {
	case location.MatchString(s):
		return nil
	case s == "":
		return errors.New("is missing")
	case scheme && location.MatchString(bare):
		return fmt.Errorf("%q has a scheme; write %s", s, bare)
	}
	if m := tag.FindStringSubmatch(s); m[1] != s && location.MatchString(m[1]) {
		return fmt.Errorf("%q has a tag or a digest, and mirrors are for whole repositories; write %s", s, m[1])
	}
	return fmt.Errorf("%q does not have the form host[:port][/path]", s)
}
