// Package base reads the bases of a delta from folders of appliances, ISOs or locks, and finds the layers
// of a release that they lack.
//
// It does not write the delta's store, which package format does, and does not compare it with its bases,
// which package verify does.
//
// Start at Read and NewCommon.
package base
