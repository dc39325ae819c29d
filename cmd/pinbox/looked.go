package main

import (
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/look"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/signature"
)

// lookedHelp is part of the help of each command that takes an image.
const lookedHelp = `

OUT is a folder, an ISO, a medium, a store in parts, or the file of a store; for a delta, name what
it was built over with --base. IMAGE is a name, a tag, a pin, a digest, or the beginning of one.
Nothing is mounted, and it takes no root.`

// looked are the flags of the commands that look into images.
type looked struct {
	bases []string
	key   string
}

func (l *looked) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&l.bases, "base", nil,
		"`PATH` of a folder or ISO that a delta was built over; may be repeated, once for each store of the chain")
	cli.Files(flags, "base", "iso")
	flags.StringVar(&l.key, "key", "",
		"`FILE` of public keys in PEM, one of which must have signed the sums; the stores are compared with these first")
	cli.Files(flags, "key", "pub", "pem")
	cli.Under("Inputs", flags)
}

// open opens the images of a release. The caller closes them.
func (l *looked) open(cmd *cobra.Command, name string, hooks progress.Hooks) (*look.Images, error) {
	var keys signature.Keys
	if l.key != "" {
		var err error
		if keys, err = signature.ReadKeys(l.key); err != nil {
			return nil, err
		}
	}
	return look.Open(cmd.Context(), append([]string{name}, l.bases...), keys, hooks)
}
