// Package docs has the pages of the documentation and the schemas, for programs that show them at a place without a
// link. A page is a file NAME.md, which begins with "# TITLE"; a schema is a file NAME.schema.json.
package docs

import "embed"

// Files are the pages and the schemas.
//
//go:embed *.md *.schema.json
var Files embed.FS
