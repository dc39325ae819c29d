package fault

import "regexp"

// secretQuery, secretUser and secretStart find what errors of others have besides a place: the query of a URL that an
// object store has signed lets whoever has it read the object, whatever its scheme, or without one; before the host
// may be a password; and the library of registries shows the start of an answer that it cannot read, which may be a
// token. The text may be within JSON.
var (
	secretQuery = regexp.MustCompile(
		`((?:[^\s"\\?]|\\[^"])*/(?:[^\s"\\?]|\\[^"])*\?)(?:[^\s"\\]|\\[^"])*(?:[^\s"\\:,.;)']|\\[^"])`)
	secretUser  = regexp.MustCompile(`(\b(?:https?|ftp|socks5h?)://)[^\s"<>/@]+@`)
	secretStart = regexp.MustCompile(`(body start )(\\?)"(?:[^"\\]|\\.)*"`)
)

// HideSecrets cuts the queries of URLs, users and passwords in them, and answers: for errors, notes and the status of
// a node.
func HideSecrets(text string) string {
	text = secretStart.ReplaceAllString(text, "$1…")
	return secretUser.ReplaceAllString(secretQuery.ReplaceAllString(text, "$1…"), "$1")
}
