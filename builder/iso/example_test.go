package iso_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinbox/pinbox/builder/iso"
)

// A medium for a node that runs: one file, found by the label of the volume.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file, content := filepath.Join(dir, "medium.iso"), "what a store would hold"
	err = iso.Create(context.Background(), file, iso.MediumLabel, 0o644, time.Unix(0, 0), []iso.Addition{
		{Name: "store.squashfs", Size: int64(len(content)), Content: strings.NewReader(content)},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	image, closer, err := iso.OpenFile(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closer.Close()
	store, err := image.Find("pinbox/store.squashfs")
	if err != nil {
		fmt.Println(err)
		return
	}
	read, err := io.ReadAll(store.Reader())
	fmt.Printf("%s: %s, %v\n", image.Label, read, err)
	// Output:
	// PINBOX: what a store would hold, <nil>
}
