// Package source reads the inputs of an appliance: what spec.sources of an appliance file
// lists, and what the flags of pinbox name instead.
//
// A [Source] is one input. [Kinds] is the table of all kinds: the appliance file, its schema, the
// flags and the documentation are made from its rows. A new input is a file with a type that
// implements Source, and a row in that table.
//
// [Read] reads the sources of an appliance into one [Content]. It reads local files only. Package
// builder makes sets of the content: it asks registries for the digests of tags and for the
// payloads of releases.
//
// Of Kubernetes objects it takes the images that are certain by their place, as those of pods. A name elsewhere is a
// [Possible] image, with which the user decides what happens.
//
// The package also has the parsers behind the inputs: PinnedImageSets, lists of images and
// Kubernetes objects, the output of oc-mirror v2, payloads and signatures of releases, and the
// mirrors of a cluster. Of the appliance file it knows only spec.sources, and it does not fetch
// images. Start with [Read] and [Kinds].
package source
