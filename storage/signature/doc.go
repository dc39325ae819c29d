// Package signature makes and checks detached signatures in the forms of three tools, so that what pinbox
// signs can be checked by hand, and the other way round:
//
//   - OpenPGP, as gpg --detach-sign makes them with and without --armor; only SHA-2 counts,
//   - minisign, prehashed as minisign makes them since 0.10: Ed25519 over the BLAKE2b-512 of the file,
//   - cosign, as cosign sign-blob --key makes them: ECDSA with P-256 over the SHA-256 of the file, in base64.
//
// A signature is recognized by its content, whatever the name of its file.
//
// It does not decide what must be signed: package runtime/stores does for a node, builder/verify on the build
// host. It has nothing to do with the signatures of images.
//
// Start at Keys.Verifier and at ReadSigner.
package signature
