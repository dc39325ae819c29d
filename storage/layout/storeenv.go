package layout

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// StoreEnv is the content of StoreEnvPath: what the script at BootPath has to know of the appliance's own store. It is
// a file of its own, so that whoever rewrites node.json does not lose the store.
type StoreEnv struct {
	// Path of the file or device with the store; "" if nothing is mounted.
	Path string
	// Label of the device, which no other one may have; "" if it is not found by one.
	Label string
	// Verity is NodeConfig.Verity for this store, which a node with keys trusts only so.
	Verity Verity
	// RootHash, in hexadecimal digits, and Blocks are the hash tree and the number of blocks below it; "" and 0 if the
	// store has none.
	RootHash string
	Blocks   int64
	// Program is the SHA-256 of the pinbox-node in the store, in hexadecimal digits; "" if the units do not install it.
	Program string
}

// Render returns the lines NAME=value. Whoever fills in the values has checked that a shell changes none.
func (e StoreEnv) Render() []byte {
	label := ""
	if e.Label != "" {
		label = "LABEL=" + e.Label + "\n"
	}
	return fmt.Appendf(nil, "# Where the store is, and what it must be, for %s.\n"+
		"STORE=%s\n%sVERITY=%s\nROOT_HASH=%s\nBLOCKS=%d\nPROGRAM_SHA256=%s\n",
		BootPath, e.Path, label, e.Verity, e.RootHash, e.Blocks, e.Program)
}

// ParseStoreEnv reads what Render writes. A line of another name is an error.
func ParseStoreEnv(text []byte) (e StoreEnv, err error) {
	for line := range bytes.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), "=")
		switch {
		case strings.HasPrefix(name, "#"):
		case name == "STORE":
			e.Path = value
		case name == "LABEL":
			e.Label = value
		case name == "VERITY":
			e.Verity = Verity(value)
		case name == "ROOT_HASH":
			e.RootHash = value
		case name == "BLOCKS":
			e.Blocks, err = strconv.ParseInt(value, 10, 64)
		case name == "PROGRAM_SHA256":
			e.Program = value
		default:
			err = fmt.Errorf("%q is not known", name)
		}
		if err != nil {
			return StoreEnv{}, fmt.Errorf("%s: %w", StoreEnvPath, err)
		}
	}
	return e, nil
}
