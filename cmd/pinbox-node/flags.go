package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/storage/layout"
)

// nodeFlags are the flags of all commands that work with a node. What a node is stands in its file of settings.
type nodeFlags struct {
	settings node.Settings
	flags    *pflag.FlagSet
	output   cli.Output
}

// open opens the node that the flags describe.
func (f *nodeFlags) open() *node.Node {
	f.settings.AnyWait = !f.flags.Changed("wait")
	return node.Open(f.settings)
}

// add adds the flags, and that of the output.
func (f *nodeFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	f.addNode(flags, wait)
	f.output.Add(flags)
}

func (f *nodeFlags) addNode(flags *pflag.FlagSet, wait time.Duration) {
	f.flags = flags
	flags.StringVar(&f.settings.Config, "config", layout.NodeConfigPath, "`FILE` of the node's settings")
	cli.Files(flags, "config", "json")
	flags.Var((*settings)(&f.settings.Set), "set",
		"`NAME=VALUE` of a setting, in place of that of the file, such as reserve=8Gi")
	flags.DurationVar(&f.settings.Wait, "wait", wait, "`TIME` to wait for CRI-O, or for another pinbox-node")
	cli.Under("Node", flags)
}

// verb is a command without arguments and flags of its own. It shows the result also with an error.
func verb(
	name, short string, wait time.Duration, do func(context.Context, *nodeFlags) (result shown, err error),
) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use: name, Short: short, Example: "  pinbox-node " + name, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.logTo(f.output.Log(cmd.ErrOrStderr()))
			result, err := do(cmd.Context(), &f)
			if result == nil {
				return err
			}
			return show(cmd.OutOrStdout(), f.output, result, err)
		},
	}
	f.add(cmd.Flags(), wait)
	return cmd
}

// logTo logs what a pass does and what it waits for.
func (f *nodeFlags) logTo(log *slog.Logger) {
	f.settings.Log = log
	f.settings.Waiting = func(why error) { log.Info(why.Error() + "; waiting") }
}

// settings are the values of --set.
type settings []string

// Set implements pflag.Value.
func (s *settings) Set(text string) error {
	*s = append(*s, text)
	return new(layout.NodeConfig).Set(text)
}

// String implements pflag.Value.
func (s *settings) String() string { return strings.Join(*s, " ") }

// Type implements pflag.Value.
func (s *settings) Type() string { return "setting" }

// named requires arguments, at most so many; its error says which.
func named(what string, most int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) > most {
			return cli.Usagef("name %s; got %d arguments", what, len(args))
		}
		return nil
	}
}

// parseDigest parses the value of --digest. "" is valid and means that the flag is not set.
func parseDigest(s string) (digest.Digest, error) {
	d := digest.Digest(s)
	if s != "" && (d.Validate() != nil || d.Algorithm() != digest.SHA256) {
		return "", cli.Usagef("--digest %s: want sha256: and 64 hexadecimal digits", s)
	}
	return d, nil
}
