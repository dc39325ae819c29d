// Package storage holds images at rest: it resolves them against registries, fetches and verifies
// their blobs, and writes them into a store. It reads images of OCI layouts, archives, mirrors and
// other stores alike.
//
// All access to registries goes through containers/image, so credentials, mirrors, certificates
// and signature policies mean what they mean to skopeo and to CRI-O.
//
// It does not decide which images there are: package builder does. The store's form is that of
// storage/compose. Start with NewClient, Client.Resolve and Client.Fill.
package storage
