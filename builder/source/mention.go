package source

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// mention is a name in a text that may be the name of an image.
type mention struct {
	// text is the name as it stands there, without a transport.
	text string
	ref  pinset.Reference
	// line counts the lines of the text before the name.
	line int
	// full is true if the name is all of a value that says that it is an image, with a registry, and a tag or a digest.
	full bool
}

// imageKeys matches keys, variables and flags whose values name images, such as image, osImageURL, imageName,
// RELATED_IMAGE_proxy and --acme-http01-solver-image.
var imageKeys = regexp.MustCompile(`(?i)image(_?(name|ref|reference|url|uri|pull_?spec))?s?$|^RELATED_IMAGE_`)

// notRegistries are hosts of names that look like images: Go packages, Git repositories and API groups. A registry
// inside a cluster has what the cluster builds.
var notRegistries = regexp.MustCompile(
	`^((www\.)?github\.com|gitlab\.com|bitbucket\.org|golang\.org|go\.googlesource\.com|pkg\.go\.dev|gopkg\.in|` +
		`(sigs\.)?k8s\.io|(.*\.)?kubernetes\.io|.*\.svc(\.cluster\.local)?(:[0-9]+)?)$`)

// files matches elements of paths that are names of files, as in server/node.go:586.
var files = regexp.MustCompile(`\.(c|cc|cfg|conf|cpp|crt|go|h|html|ini|java|jar|js|json|key|log|lua|md|pem|php|pl|py|` +
	`rb|rs|sh|so|sock|sql|tar|tgz|tmpl|toml|ts|txt|xml|ya?ml|zip)$`)

// plainTags are tags without a digit.
var plainTags = []string{
	"latest", "stable", "main", "master", "nightly", "edge", "dev", "devel", "release", "alpine", "nonroot",
}

// named reports whether a name has a tag or a digest.
func named(name string) bool {
	return strings.Contains(name, "@") || strings.Contains(name[strings.LastIndex(name, "/")+1:], ":")
}

// imageOf reads a name as an image, if it is likely to be one. below is true if a key says that it is an image.
func imageOf(name string, below bool) (ref pinset.Reference, full, ok bool) {
	ref, short, err := pinset.Expand(name)
	if err != nil || files.MatchString(ref.Repository) {
		return ref, false, false
	}
	host, _, _ := strings.Cut(name, "/")
	switch named := named(name); {
	case !short && notRegistries.MatchString(host):
		return ref, false, false
	case !short:
		taint := slices.Contains([]string{"NoSchedule", "NoExecute", "PreferNoSchedule"}, ref.Tag)
		return ref, named, !taint && (named || below)
	case ref.Digest != "":
		return ref, false, true
	case !strings.Contains(name, "/"): // nginx:1.27 is an image where a key says so
		return ref, false, below && named
	case below:
		return ref, false, true
	}
	path := ref.Repository[len("docker.io/"):]
	return ref, false, named(name) && strings.ContainsAny(path, letters) && likelyTag(ref.Tag)
}

const letters = "abcdefghijklmnopqrstuvwxyz"

// likelyTag tells the tag of namespace/name:tag from the port of namespace/service:port and the kind of group/v1:Kind.
func likelyTag(tag string) bool {
	if strings.Trim(tag, "0123456789") == "" {
		return len(tag) < 3 || len(tag) > 5 // a port, or a line of a file
	}
	return strings.ContainsAny(tag, "0123456789") || slices.Contains(plainTags, tag)
}

// cutTransport cuts what some APIs put before a name. An oci:// is an image where a key says so, and else a chart.
func cutTransport(text, key string) (name string, ok bool) {
	for _, transport := range []string{"docker://", "docker-pullable://"} {
		if name, ok := strings.CutPrefix(text, transport); ok {
			return name, true
		}
	}
	model := strings.HasSuffix(key, "storageUri") || key == "uri"
	if name, ok := strings.CutPrefix(text, "oci://"); ok && (imageKey(key) || model) {
		return name, true
	}
	return text, !strings.Contains(text, "://")
}

// imageKey reports whether the value of a key, a variable or a flag names an image.
func imageKey(key string) bool { return imageKeys.MatchString(strings.TrimLeft(key, "-")) }

// mentions finds the names of images in the value of a key: all of the text, or words in it.
func mentions(text, key string) (all []mention) {
	whole := strings.TrimSpace(text)
	if flag, value, ok := strings.Cut(whole, "="); ok && strings.HasPrefix(flag, "-") && imageKey(flag) {
		whole, key = value, flag
	}
	if name, ok := cutTransport(whole, key); ok {
		below := imageKey(key) || strings.HasSuffix(key, "storageUri")
		if ref, full, ok := imageOf(name, below); ok {
			return []mention{{text: name, ref: ref, full: full && below}}
		}
	}
	line, before, seen := 0, "", map[string]bool{}
	for len(text) > 0 {
		if i := strings.IndexFunc(text, inWord); i != 0 {
			if i < 0 {
				break
			}
			line += strings.Count(text[:i], "\n")
			text = text[i:]
		}
		end := strings.IndexFunc(text, func(r rune) bool { return !inWord(r) })
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		text = text[end:]
		trimmed := strings.Trim(word, ".:-")
		filled := strings.HasPrefix(text, "$") || strings.HasPrefix(text, "{") // the rest is filled in: b:v$(VERSION)
		if name, ok := cutTransport(trimmed, before); ok && named(name) && !seen[name] && !filled {
			if ref, _, ok := imageOf(name, imageKey(before)); ok {
				seen[name] = true
				all = append(all, mention{text: name, ref: ref, line: line})
			}
		}
		if trimmed != "" {
			before = trimmed
		}
	}
	return all
}

// inWord reports whether a character may be in a name, or makes a word no name: a $ or a % fills in something.
func inWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("./:@_-+%*~", r) || r > 127
}
