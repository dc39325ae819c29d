// Package storage resolves images, fetches and verifies their blobs, and writes them into a store.
// It reads images from registries, OCI layouts, archives, the files of a registry, and other
// stores.
//
// All access to registries goes through containers/image, so credentials, mirrors, certificates
// and signature policies have the same meaning as for skopeo and CRI-O. Comments in this package
// call containers/image "the library".
//
// The package does not choose the images: package builder does. It does not define the files of a
// store: storage/compose does. Start with [NewClient], [Client.Resolve] and [Client.Fill]; for
// images on this machine, with [ReadLayout], [OpenArchive], [OpenImageStore] or [ReadDistribution].
package storage
