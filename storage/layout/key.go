package layout

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Keys of an image's own manifest and of the signatures of it: ImageDigestBigDataKey of
// containers/storage, and storage/storage_dest.go of containers/image.
const (
	ManifestData   = "manifest"
	SignaturesData = "signatures"
)

// ManifestKey returns the key of a manifest with a digest: manifestBigDataKey in
// containers/image, storage/storage_image.go.
func ManifestKey(d digest.Digest) string { return "manifest-" + d.String() }

// SignatureKey returns the key of the signatures of a manifest: signatureBigDataKey in
// containers/image, storage/storage_image.go.
func SignatureKey(d digest.Digest) string { return SignaturePrefix + "-" + d.Encoded() }

// SignaturePrefix begins the keys of signatures, those of the main manifest too.
const SignaturePrefix = "signature"

// ConfigKey returns the key of the configuration of an image, whose digest is the ID of the image.
func ConfigKey(image string) string {
	return digest.NewDigestFromEncoded(digest.SHA256, image).String()
}

// DocumentFile returns the path of the document of an image that has a key.
func DocumentFile(image, key string) string { return path.Join(ImagesDir, image, DataFile(key)) }

// DataFile returns the name of the file with the document of a key: makeBigDataBaseName in
// containers/storage, store.go.
func DataFile(key string) string {
	if strings.Trim(key, ".0123456789abcdefghijklmnopqrstuvwxyz") == "" {
		return key
	}
	return "=" + base64.StdEncoding.EncodeToString([]byte(key))
}

// LayerID returns the ID that a pull gives to a layer, so that pulls find the layer in the store:
// layerID in containers/image, storage/storage_dest.go. parent is the ID of the layer below, or "".
func LayerID(parent string, diffID digest.Digest) string {
	if parent == "" {
		return diffID.Encoded()
	}
	sum := sha256.Sum256([]byte(parent + "+" + diffID.Encoded()))
	return hex.EncodeToString(sum[:])
}

// LinkName returns the short name by which overlay mounts a layer. The driver searches for a name
// in all stores of a node, so the name depends on the layer's ID; the length is idLength in
// containers/storage, drivers/overlay.
func LinkName(layerID string) string {
	sum := sha256.Sum256([]byte("pinbox link " + layerID))
	var text [32]byte
	base32.StdEncoding.Encode(text[:], sum[:20])
	return string(text[:26])
}
