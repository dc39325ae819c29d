package fault

import "regexp"

// secretQuery, secretUser, secretStart and secretHeader find what errors of others have besides a place: the query of
// a URL that an object store has signed lets whoever has it read the object, whatever its scheme, or without one;
// before the host may be a password; the library of registries shows the start of an answer that it cannot read, which
// may be a token; and a registry may repeat the header Authorization, where no capital and no digit is a word: "basic
// auth". The text may be within JSON.
var (
	secretQuery = regexp.MustCompile(
		`((?:[^\s"\\?]|\\[^"])*/(?:[^\s"\\?]|\\[^"])*\?)(?:[^\s"\\]|\\[^"])*(?:[^\s"\\:,.;)']|\\[^"])`)
	secretUser   = regexp.MustCompile(`(\b(?:https?|ftp|socks5h?)://)[^\s"<>/@]+@`)
	secretStart  = regexp.MustCompile(`(body start )(\\?)"(?:[^"\\]|\\.)*"`)
	secretHeader = regexp.MustCompile(`((?i:\b(?:basic|bearer)) +)[a-z+/._~-]*[A-Z0-9][\w+/.~-]*=*`)
)

// HideSecrets cuts the queries of URLs, users and passwords in them, answers, and credentials of headers: for errors,
// notes and the status of a node.
func HideSecrets(text string) string {
	text = secretHeader.ReplaceAllString(secretStart.ReplaceAllString(text, "$1…"), "$1…")
	return secretUser.ReplaceAllString(secretQuery.ReplaceAllString(text, "$1…"), "$1")
}
