// Package mirror merges the mirrors of a cluster (ImageDigestMirrorSet, ImageTagMirrorSet,
// ImageContentSourcePolicy) as the Machine Config Operator does, and renders them as
// registries.conf.
//
// It reads no objects: builder/source does. It contacts no registry: containers/image does, by the
// file that Render writes.
//
// Start with Merge.
package mirror
