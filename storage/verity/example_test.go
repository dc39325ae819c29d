package verity_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/pinbox/pinbox/storage/verity"
)

// Writes data with its tree, and checks the file.
func Example() {
	scratch, err := os.CreateTemp("", "tree")
	if err != nil {
		panic(err)
	}
	defer os.Remove(scratch.Name())
	defer scratch.Close()

	const text = "data of one block"
	var file bytes.Buffer
	w := verity.NewWriter(&file, int64(len(text)), scratch)
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
	tree, err := w.Close()
	if err != nil {
		panic(err)
	}
	fmt.Println(tree.Blocks, strings.TrimSpace(string(tree.RootHash())))

	c := verity.NewChecker(int64(file.Len()))
	_, _ = file.WriteTo(c) // it never fails
	same, err := c.Tree()
	fmt.Println(same == tree, err)
	// Output:
	// 1 31a7e07670e4be5f90144f2b2992b8748b57d0daf11bed5443dc56a4cd4d34d8
	// true <nil>
}
