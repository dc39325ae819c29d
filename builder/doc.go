// Package builder is the line from inputs to an appliance or a delta:
//
//	decide     read the sources, resolve every image, render the first-boot configuration
//	space      is there room for what comes of it?
//	store      write the image store: layers, records, and pinbox's own files
//	texts      lock, PinnedImageSets, configuration
//	sums       the live ISO, and SHA256SUMS
//	publish    the folder takes its place
//
// Each stage is complete before the next one begins, and what it does stands in a package of its own:
// the appliance file in spec, its sources in source, the node's configuration in firstboot, what nodes
// have already in base, the forms of a store in format, the folder in artifact. None of them calls back.
// What a folder has is compared in package verify, and mirrors, ISOs and manifests are read by mirror,
// iso and lint.
//
// It does not know how images are fetched and packed, which package storage does, nor what a node does
// with a store, which package runtime does.
//
// Start at Build; run in line.go is the line.
package builder
