// Package download makes requests patient: those of containers/image to registries, and those of a node for the files
// of a server.
//
//   - Patience says how long to go on while nothing of the whole moves. All requests of a build share one.
//   - A Host is a server: how many requests it admits at a time, when it wants the next one, how fast it is.
//   - Transport makes a request again that a registry could not answer, and ends one that stalls. WithRange makes one
//     for a part of a blob.
//   - Failed says of an error of the library whether the request may be made again.
//   - Watch ends a call of the library that stalls before it has a Transport, or is answered without end: a meter
//     counts what its connection receives.
//
// The library has no limit of time, repeats a request for the status 429 only, five times, and exports neither its HTTP
// client nor ranges of blobs: should it get an option for a http.RoundTripper, Install is the place for it.
//
// It knows no images and no mirrors: package storage does. Start with Transport.
package download
