// Command pinbox-node looks after the pinned images of a node.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/storage/pinset"
)

// version is set by the linker.
var version = "dev"

const setsDir = "/etc/pinbox/sets.d"

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println("pinbox-node", version)
		return
	}
	if len(os.Args) != 2 || os.Args[1] != "firstboot" {
		fmt.Fprintln(os.Stderr, "usage: pinbox-node firstboot | version")
		os.Exit(2)
	}
	if err := firstboot(); err != nil {
		fmt.Fprintln(os.Stderr, "pinbox-node:", err)
		os.Exit(1)
	}
}

// firstboot reads the sets that this node was built for.
func firstboot() error {
	files, err := filepath.Glob(filepath.Join(setsDir, "*.yaml"))
	if err != nil {
		return err
	}
	var all []pinset.Set
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		sets, _, err := pinset.DecodeSets(f, name)
		if err := f.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		all = append(all, sets...)
	}
	fmt.Printf("%d sets pin %d images\n", len(all), len(pinset.Union(all...)))
	return nil
}
