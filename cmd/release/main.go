// Command release makes what a release of pinbox publishes: `make release`. It builds the programs for all platforms,
// packages of them, an image, and the documents that say what these are. Two runs of one commit give equal bytes,
// apart from the signature.
//
// It does not publish anything: .github/workflows/release.yml does.
//
// Start at release.make.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/pinbox/pinbox/storage/signature"
)

// platforms of the static programs. macOS has pinbox only.
const platforms = "linux/amd64,linux/arm64,linux/ppc64le,linux/riscv64,linux/s390x,darwin/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var r release
	flag.StringVar(&r.out, "o", "bin/release", "`DIR` to make; what it has is removed")
	flag.StringVar(&r.nfpm, "nfpm", "bin/peers/nfpm", "`FILE` of nfpm, which makes the packages")
	list := flag.String("platforms", platforms, "`PLATFORMS` to build for, with commas")
	key := flag.String("sign-key", "", "`FILE` of a secret key of OpenPGP, minisign or cosign; its passphrase is in "+
		"PINBOX_SIGN_PASSPHRASE")
	flag.Parse()
	r.platforms = strings.Split(*list, ",")
	err := r.sign(*key)
	if err == nil {
		err = r.make(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

// sign reads the key; without one nothing is signed.
func (r *release) sign(key string) (err error) {
	if key != "" {
		r.signer, err = signature.ReadSigner(key, []byte(os.Getenv("PINBOX_SIGN_PASSPHRASE")))
	}
	return err
}
