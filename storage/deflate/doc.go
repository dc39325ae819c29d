// Package deflate decompresses the streams that most layers of images are compressed with: DEFLATE,
// RFC 1951. It does what compress/flate does in about half of the time, since it
//
//   - keeps up to 63 bits of input in a register, which is filled without a branch;
//   - looks up a whole code of up to 11 bits at once, with the length of its extra bits;
//   - copies matches in words of 8 or 16 bytes, which may write beyond their end.
//
// Every access is checked by Go: a hostile stream is at worst an error.
package deflate
