package source

import (
	"cmp"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
)

// nameParts are the keys of a name in parts, as in custom resources, values of charts, and Kustomizations. Of several
// keys for a part the first is used.
var nameParts = struct{ registry, repository, image, tag, version, digest []string }{
	registry:   []string{"registry", "imageRegistry", "hub", "imageRemote"},
	repository: []string{"repository", "imageRepository", "newName", "repo", "base"},
	image:      []string{"baseImage", "image", "imageName"},
	tag:        []string{"newTag", "tag", "imageTag"},
	version:    []string{"imageVersion", "version", "appVersion"},
	digest:     []string{"digest", "imageDigest", "sha256", "sha"},
}

// shared are parts of names that stand above the mappings of the images: the hub and the tag of Istio's charts, the
// base of components, the version of what an image belongs to.
type shared struct {
	prefix, tag, version string
	// outer is the next version above, however far.
	outer string
}

// sharedBy returns what the names below a mapping share, with what they shared above it. A version is for the next
// level.
func sharedBy(n *yaml.Node, above shared) shared {
	below := above
	for _, of := range []*yaml.Node{document.Field(n, "global"), n} {
		for _, key := range []string{"registry", "imageRegistry", "hub", "base"} {
			text := document.Text(document.Field(of, key))
			if strings.ContainsAny(text, "./") && !strings.Contains(text, "://") {
				below.prefix = text
				_, below.tag = part(of, nameParts.tag, nil)
			}
		}
	}
	_, below.version = part(n, nameParts.version, nil)
	below.outer = cmp.Or(below.version, above.outer)
	return below
}

// spelled returns the value of a key in any spelling, as imageTag, image_tag, image-tag and IMAGE_TAG; nil if there is
// none.
func spelled(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		spelling := n.Content[i].Value
		if len(spelling) <= len(key)+2 && strings.EqualFold(separators.Replace(spelling), key) {
			return n.Content[i+1]
		}
	}
	return nil
}

// separators are left out of keys to compare them.
var separators = strings.NewReplacer("_", "", "-", "")

// part returns the first key of a mapping that has a text, and is not in taken.
func part(n *yaml.Node, keys []string, taken map[*yaml.Node]bool) (value *yaml.Node, text string) {
	for _, key := range keys {
		value := spelled(n, key)
		if text := strings.TrimSpace(document.Text(value)); text != "" && !taken[value] {
			return value, strings.TrimPrefix(strings.TrimPrefix(text, "docker://"), "https://")
		}
	}
	return nil, ""
}

// hexDigest is a digest without its algorithm.
var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// joinParts returns the name that the keys of a mapping make, and the values that it is made of; "" if they make none.
// below is true if the key of the mapping says that it is an image. taken are values that are names by themselves.
func joinParts(n *yaml.Node, below bool, above shared, taken map[*yaml.Node]bool) (name string, used []*yaml.Node) {
	registryNode, registry := part(n, nameParts.registry, taken)
	repositoryNode, repository := part(n, nameParts.repository, taken)
	imageNode, image := part(n, nameParts.image, taken)
	nameNode, ownName := part(n, []string{"name"}, taken)
	tagNode, tag := part(n, nameParts.tag, nil)
	versionNode, version := part(n, nameParts.version, nil)
	digestNode, digest := part(n, nameParts.digest, nil)
	if document.Field(n, "chart") != nil { // the repository of a chart
		return "", nil
	}
	switch repositoryNode { // these keys have other meanings by themselves
	case nil:
	case spelled(n, "repo"):
		if registry == "" && !below {
			return "", nil
		}
	case spelled(n, "base"):
		if digest == "" {
			return "", nil
		}
	}

	// The path.
	switch {
	case repository != "" && image != "" && !hasHost(image):
		name, used = repository+"/"+image, append(used, repositoryNode, imageNode)
	case repository != "" && registry != "" && ownName != "" && below:
		name, used = repository+"/"+ownName, append(used, repositoryNode, nameNode)
	case repository != "":
		name, used = repository, append(used, repositoryNode)
	case image != "":
		name, used = image, append(used, imageNode)
	case ownName != "" && below && (tag != "" || digest != ""):
		name, used = ownName, append(used, nameNode)
	default:
		return "", nil
	}
	complete := named(name)
	switch {
	case complete && hasHost(name):
		return "", nil // the value is the name
	case hasHost(name) || strings.HasPrefix(name, registry+"/") && registry != "":
	case registry != "":
		name, used = strings.TrimSuffix(registry, "/")+"/"+name, append(used, registryNode)
	case above.prefix != "" && (below || image != "") && !strings.HasPrefix(name, above.prefix):
		name = strings.TrimSuffix(above.prefix, "/") + "/" + name
	case complete:
		return "", nil // the value is the name
	}

	// The tag and the digest.
	own := tag != "" || digest != ""
	switch {
	case complete:
	case own:
	case version != "":
		tag, tagNode = version, versionNode
	case above.tag != "":
		tag = above.tag
	case above.version != "" && (below || image != ""):
		tag = above.version
	case above.outer != "" && document.Field(n, "tag") != nil: // an empty tag stands for a version of the whole
		tag = above.outer
	case repository != "" && (below || image != "" && hasHost(name)):
	default:
		return "", nil
	}
	switch {
	case !below && !strings.Contains(name, "/"):
		return "", nil
	case image == "" && !own && !below: // the repository and the version of something else
		return "", nil
	}
	if !complete {
		if hexDigest.MatchString(digest) {
			digest = "sha256:" + digest
		}
		if strings.HasPrefix(tag, "sha256:") {
			digest, tag = tag, ""
		}
		if tag != "" {
			name, used = name+":"+strings.ReplaceAll(tag, "+", "-"), append(used, tagNode)
		}
		if digest != "" && !strings.Contains(tag, "@") {
			name, used = name+"@"+digest, append(used, digestNode)
		}
	}
	return name, used
}

// hasHost reports whether a name begins with the host of a registry.
func hasHost(name string) bool {
	host, _, found := strings.Cut(name, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// besideKeys are the keys of a tag that stands beside a name: rancherImage and rancherImageTag, proxyImage and
// proxyVersion.
func besideKeys(key string) (keys []string) {
	stem := strings.TrimRight(imageWord.ReplaceAllString(key, ""), "_")
	for _, tag := range []string{"Tag", "_tag", "_TAG", "Version", "_version", "_VERSION"} {
		keys = append(keys, key+tag)
		if stem != "" {
			keys = append(keys, stem+tag)
		}
	}
	return keys
}

// imageWord is the end of a key that says that it is an image.
var imageWord = regexp.MustCompile(`(?i)_?image(_?(name|ref|repository|repo|url))?$`)

// joinBeside returns the name of a key of a mapping with the tag of another key of it, and their values; "" if there is
// none.
func joinBeside(n *yaml.Node, key string, value *yaml.Node) (name string, used []*yaml.Node) {
	name = strings.TrimPrefix(document.Text(value), "docker://")
	if name == "" || named(name) || !imageWord.MatchString(key) {
		return "", nil
	}
	tagNode, tag := part(n, besideKeys(key), nil)
	if tag == "" {
		return "", nil
	}
	return name + ":" + strings.ReplaceAll(tag, "+", "-"), []*yaml.Node{value, tagNode}
}

// namedValues returns a list of names and values as a mapping: variables, or parameters of a chart or a template.
func namedValues(list *yaml.Node) *yaml.Node {
	mapping := &yaml.Node{Kind: yaml.MappingNode}
	for _, item := range list.Content {
		key, value := document.Field(item, "name"), document.Field(item, "value")
		if document.Text(key) != "" && document.Text(value) != "" {
			mapping.Content = append(mapping.Content, key, value)
		}
	}
	return mapping
}

// dotted looks for names whose parts are values of keys with dots: image.repository and image.tag, as in the
// parameters of charts.
func (w *walker) dotted(n *yaml.Node, in object) {
	mappings, keys := map[string]*yaml.Node{}, []string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := *n.Content[i]
		dot := strings.LastIndex(key.Value, ".")
		if dot < 0 || strings.Contains(key.Value, "/") {
			continue
		}
		above := key.Value[:dot]
		if mappings[above] == nil {
			mappings[above] = &yaml.Node{Kind: yaml.MappingNode}
			keys = append(keys, above)
		}
		key.Value = key.Value[dot+1:]
		mappings[above].Content = append(mappings[above].Content, &key, n.Content[i+1])
	}
	for _, above := range keys {
		if key := above[strings.LastIndex(above, ".")+1:]; imageKey(key) { // git.repository and git.tag are none
			w.parts(mappings[above], key, in)
		}
	}
}
