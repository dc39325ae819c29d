package builder

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
)

// ErrNodeBinary says that the pinbox-node for the store is missing or does not run on the nodes.
var ErrNodeBinary = fault.New(fault.Input, "pinbox-node cannot be used",
	"`GOARCH=… make node` builds one next to pinbox; or name one with spec.node.binary or --node-binary")

// elfMachines has the architectures of nodes, by their names in Go.
var elfMachines = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x",
	elf.EM_RISCV: "riscv64",
}

// openNodeBinary opens the pinbox-node for the store, and checks its architecture.
func openNodeBinary(o Options) (*os.File, error) {
	name := o.Appliance.Spec.Node.Binary
	if name == "" {
		name = o.NodeBinary
	}
	f, err := input.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNodeBinary, err)
	}
	_, arch, _ := o.Appliance.Spec.Platform.Split()
	head, err := elf.NewFile(f)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s is not a Linux program: %w", ErrNodeBinary, name, err)
	case elfMachines[head.Machine] != arch:
		err = fmt.Errorf("%w: %s is for %s, the appliance for %s", ErrNodeBinary, name, elfMachines[head.Machine], arch)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// openProgram opens the pinbox-node of the release. A delta needs none, which a warning says: nodes keep theirs.
func openProgram(o Options) (program *os.File, warnings []string, err error) {
	program, err = openNodeBinary(o)
	if o.makesDelta() && o.Appliance.Spec.Node.Binary == "" && errors.Is(err, fs.ErrNotExist) {
		return nil, []string{"nodes keep their pinbox-node: there is none at " + o.NodeBinary +
			", and neither --node-binary nor spec.node.binary names one"}, nil
	}
	return program, nil, err
}
