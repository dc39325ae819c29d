package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

func copyVolumesCommand() *cobra.Command {
	const short = "Copy the images of image volumes into CRI-O's own store"
	cmd := verb("copy-volumes", short, time.Minute, func(ctx context.Context, f *nodeFlags) (shown, error) {
		images, err := f.open().CopyVolumes(ctx)
		copied := copiedVolumes{Images: []string{}}
		for _, img := range images {
			copied.Images = append(copied.Images, img.String())
		}
		return copied, err
	})
	cmd.Long = `Copy the images of image volumes, with all their layers, out of the mounted stores into CRI-O's
own store, where pods can mount them. The command changes nothing unless "imageVolumes" is "copy" in
/etc/pinbox/node.json. Passes run it, so there is no need to.`
	return cmd
}

// copiedVolumes is the result of `copy-volumes --output json`.
type copiedVolumes struct {
	Images []string `json:"images"`
}

func (c copiedVolumes) print(w io.Writer) error {
	for _, name := range c.Images {
		fmt.Fprintf(w, "copied %s\n", name)
	}
	if len(c.Images) == 0 {
		_, err := fmt.Fprintln(w, "nothing to copy")
		return err
	}
	return nil
}
