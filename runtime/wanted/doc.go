// Package wanted records the images that pods of a node wanted and that the node did not have, for the next release:
// wanted.json. It finds them in the logs of CRI-O and the kubelet, the only place that has them also where there is no
// API: CRI has no events of pulls, and a pull that failed leaves nothing in CRI-O's store.
//
// It does not know which images the node has by now: package runtime does, and calls [Missed].
//
// Start at Record: ReadJournal and ReadFile read a log on from where the last reading ended, and Scan is what they have
// in common.
package wanted
