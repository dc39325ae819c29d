// Package thin makes and reads thin deltas: the form in which a delta store is transported to nodes
// that have its bases. In place of the trees of its layers, a thin delta has recipes: how the tar
// stream of each new layer is put together from contents that layers of the bases have, patches of
// such contents, and literal bytes.
//
// A [Maker] compares the store of a release with the stores of its bases, and writes the index and
// the data, which are two files of the thin delta. A [Reader] puts the streams together and compares
// each with its DiffID: a stream that ends without an error is the right one, whatever the thin delta
// or a base contains.
//
// The package neither composes stores nor decides which base a node uses: see storage/compose,
// builder/format and runtime/stores. docs/format.md specifies the two files.
//
// Start with [Maker.Make] and [Reader.Layer].
package thin
