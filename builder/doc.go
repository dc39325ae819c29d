// Package builder builds an appliance or a delta in these steps:
//
//	plan       read the sources, resolve every image, render the first-boot configuration
//	space      check that the result will fit on the disk
//	store      write the image store: layers, records, and pinbox's own files
//	texts      write the lock, the PinnedImageSets and the configuration
//	ISO        write the live ISO, if there is a base ISO
//	sums       write SHA256SUMS
//	publish    rename the folder to its final name
//
// Each step is complete before the next one begins. The packages below do the work: spec has the appliance
// file, source its sources, resolve makes pinned images of them, firstboot renders the node's configuration,
// base reads what nodes have already, format writes the store, and artifact the folder. None of them calls
// this package.
//
// It does not know how images are fetched and packed (package storage), how a result is verified (package
// verify), or what a node does with a store (package runtime).
//
// Start at Build, which has the steps.
package builder
