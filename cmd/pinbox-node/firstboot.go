package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/watch"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/pinset"
)

func firstbootCommand() *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:   "firstboot",
		Short: "Check once that every image is on the node and pinned, and write the status",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := observe(cmd.Context(), f)
			if err != nil {
				return err
			}
			if err := f.save(status); err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), status)
		},
	}
	f.add(cmd.Flags(), 2*time.Minute)
	return cmd
}

// observe looks at the node once.
func observe(ctx context.Context, f nodeFlags) (runtime.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	client, err := cri.Dial(f.socket)
	if err != nil {
		return runtime.Status{}, err
	}
	defer client.Close()
	sets, setsErr := watch.Dir(os.DirFS(f.sets))
	sets = watch.ForPools(sets, f.pools)
	config, configErr := crio.ReadConfig(os.DirFS(f.crio))
	problems := errors.Join(setsErr, configErr, config.Judge(pinset.Union(sets...)))
	return runtime.Observe(ctx, client, sets, problems)
}

func (f nodeFlags) save(s runtime.Status) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.status), 0o755); err != nil {
		return err
	}
	_, err = atomicfile.Write(f.status, append(content, '\n'), 0o644)
	return err
}
