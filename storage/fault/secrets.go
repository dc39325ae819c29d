package fault

import "regexp"

// secretQuery and secretUser find what URLs have besides a place: the query of one that an object store has signed lets
// whoever has it read the object, and before the host may be a password.
var (
	secretQuery = regexp.MustCompile(`(\bhttps?://[^\s"'<>?]+\?)[^\s"'<>]*[^\s"'<>:,.;)]`)
	secretUser  = regexp.MustCompile(`(\bhttps?://)[^\s"'<>/@]+@`)
)

// HideSecrets cuts the queries of URLs, and users and passwords in them: for errors, notes and the status of a node.
func HideSecrets(text string) string {
	return secretUser.ReplaceAllString(secretQuery.ReplaceAllString(text, "$1…"), "$1")
}
