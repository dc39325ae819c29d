package runtime

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/download"
)

// Class of an error. It decides when pinbox-node tries again.
type Class string

// Auth, NotFound and Policy need an administrator; Space needs space; Network and Other may be
// transient.
const (
	Auth     Class = "auth"
	NotFound Class = "not found"
	Policy   Class = "policy"
	Space    Class = "space"
	Network  Class = "network"
	Other    Class = "other"
)

var classes = []Class{Auth, NotFound, Policy, Space, Network, Other}

// Transient reports that the same attempt may succeed a little later.
func (c Class) Transient() bool { return c == Network || c == Other }

// texts classify errors: CRI-O returns most errors of registries as text with the code Unknown. The
// first match counts, and Network precedes NotFound: a mirror that did not answer may have the
// image.
var texts = []struct {
	class Class
	text  *regexp.Regexp
}{
	{Space, regexp.MustCompile(`(?i)no space left on device|disk quota exceeded`)},
	{Other, regexp.MustCompile(`code = Unavailable`)}, // CRI-O itself has ended
	{Network, regexp.MustCompile(`(?i)RegistryUnavailable|connection (refused|reset)|no such host|timeout|TLS handshake|` +
		`unreachable|no route to host|deadline exceeded|\bEOF\b|broken pipe|too ?many ?requests|` +
		`status( ?code)?( from registry)?:? (429|5\d\d)|name resolution|server misbehaving`)},
	{Policy, regexp.MustCompile(`(?i)SignatureValidationFailed|rejected by policy|source image rejected|` +
		`a signature was required`)},
	{Auth, regexp.MustCompile(`(?i)unauthorized|authentication required|` +
		`access to the (requested )?resource is (denied|not authorized)|\b(40[13]|forbidden)\b`)},
	{NotFound, regexp.MustCompile(`(?i)manifest unknown|name unknown|no image found in|repository .*not found|\b404\b`)},
}

// names matches names of images, hosts and addresses, which are not searched for texts.
var names = regexp.MustCompile(`[^\s:/]+[:/]\S*[^\s:"]`)

// Classify returns the class of an error of a pull, or of a registry.
func Classify(err error) Class {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, ErrSpace):
		return Space
	case errors.Is(err, download.ErrStalled):
		return Network
	}
	text := names.ReplaceAllString(err.Error(), "")
	for _, t := range texts {
		if t.text.MatchString(text) {
			return t.class
		}
	}
	return Other
}

// Fault is why an image is not on the node.
type Fault struct {
	Class Class
	Text  string
}

func faultOf(err error) Fault {
	text := strings.TrimPrefix(err.Error(), "rpc error: code = Unknown desc = ") // gRPC adds it
	if noTLS.MatchString(text) {
		text += "; to use the registry all the same, write `insecure = true` for it in registries.conf"
	}
	return Fault{Classify(err), text}
}

// noTLS matches errors of a registry that serves plain HTTP, or has an untrusted certificate: CRI-O's texts, and those
// of containers/image.
var noTLS = regexp.MustCompile(http.ErrSchemeMismatch.Error() + `|x509: `)
