//go:build !native || !cgo

package codec

func foldLong(sum uint64, p []byte) (uint64, []byte) { return foldISO(sum, p) }
