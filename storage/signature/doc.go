// Package signature makes and checks detached signatures by PEM keys: ECDSA with P-256 over the SHA-256 of a text, or
// Ed25519, in base64, as `cosign sign-blob --key` writes them. cosign and openssl verify what pinbox signs, and a
// signature that they, or an HSM, have made is as good.
//
// It does not decide what must be signed: package runtime/stores does for a node, builder/verify on the build
// host. It has nothing to do with the signatures of images.
//
// Start at Keys.Verify and at ReadSigner.
package signature
