package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/pages"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// errNotReady is the error of a fleet with nodes that are not ready.
var errNotReady = fault.New(fault.Other, "not all nodes are ready", "")

// askInterval is the time between two questions of --wait: a node reports at most every 10 seconds.
const askInterval = 10 * time.Second

func fleetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "fleet", Short: "Show which nodes have the images of their sets"}
	cmd.AddCommand(fleetStatusCommand())
	return cmd
}

// fleetFlags are the flags of `fleet status`.
type fleetFlags struct {
	cluster           clusterFlags
	key, set, release string
	stale             string
	timeout           time.Duration
	wait              bool
	output            cli.Output
	page              cli.Page
}

func fleetStatusCommand() *cobra.Command {
	var f fleetFlags
	cmd := &cobra.Command{
		Use:   "status [REPORTS...]",
		Short: "Show how many nodes are ready, and why the others are not",
		Example: `  pinbox fleet status reports/ --key keys/
  pinbox fleet status --set worker --wait --timeout 30m    # of the API`,
		Long: `status asks the API of a cluster for the reports of its nodes, or reads files and folders of
reports: those that "pinbox-node report" writes, or "kubectl get nodeimagestatuses -o json".

The exit code is 0 if all nodes are ready, and 1 if one is not. With the API, these nodes
are not ready, too: a node that has never reported, and a node that does not have the
latest generation of its sets yet.`,
		ValidArgsFunction: cli.FileArgs(math.MaxInt, "json"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			return f.run(cmd.Context(), paths, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.cluster.add(flags)
	flags.StringVar(&f.key, "key", "",
		"`PATH` of public keys in PEM, one of which must have signed each file of reports: a file, or a folder with a file "+
			"NODE.pub for each node")
	cli.Files(flags, "key", "pub", "pem")
	cli.Under("Inputs", flags)
	flags.StringVar(&f.set, "set", "", "only ask for the set `NAME`")
	flags.StringVar(&f.release, "release", "",
		"also ask for the release `NAME` or NAME/NUMBER of an appliance, as the current one")
	flags.StringVar(&f.stale, "stale", "",
		"`TIME` after which a node that has not reported is not ready, such as 2h or 30d; 0 for never (default: 2h with the "+
			"API, to which a node reports every 30 minutes at least; 0 with files)")
	cli.Under("Question", flags)
	flags.BoolVar(&f.wait, "wait", false, "wait until all nodes are ready")
	flags.DurationVar(&f.timeout, "timeout", 0, "`TIME` to wait at most (default: no limit)")
	cli.Under("Waiting", flags)
	f.output.Add(flags)
	f.page.Add(flags, "`FILE` to write a page to, with every node, in place of the text")
	cli.Under("Output", flags)
	return cmd
}

// run asks once, or until all nodes are ready. While it waits, the API may be away.
func (f fleetFlags) run(ctx context.Context, paths []string, stdout, stderr io.Writer) error {
	nodes, err := f.source(paths)
	if err != nil {
		return err
	}
	q := fleet.Query{Set: f.set}
	if q.Stale, err = staleTime(f.stale, len(paths) > 0); err != nil {
		return err
	}
	if f.release != "" {
		if q.Release, err = fleet.ParseRelease(f.release); err != nil {
			return cli.Usagef("--release: %w", err)
		}
	}
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	said := ""
	for {
		s, err := ask(ctx, nodes, q)
		may := errors.Is(err, cluster.ErrAPI) || errors.Is(err, fleet.ErrNoNodes) || err == nil && !s.AllReady()
		waiting := f.wait && may
		if err == nil && (!waiting || ctx.Err() != nil) {
			return f.show(stdout, s, len(paths) > 0)
		}
		if !waiting {
			return err
		}
		text := fmt.Sprintf("%d of %d nodes are ready", s.Ready, s.Nodes)
		if err != nil {
			text = err.Error()
		}
		if text != said {
			fmt.Fprintln(stderr, text)
			said = text
		}
		select {
		case <-ctx.Done():
			if err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return f.show(stdout, s, len(paths) > 0)
			}
			return errors.Join(err, ctx.Err())
		case <-time.After(askInterval):
		}
	}
}

// staleTime reads the value of --stale. Its default for files is none: they come with a courier.
func staleTime(text string, files bool) (time.Duration, error) {
	if text == "" && !files {
		return 2 * time.Hour, nil
	}
	if text == "" {
		return 0, nil
	}
	days, isDays := strings.CutSuffix(text, "d")
	if n, err := strconv.ParseUint(days, 10, 16); isDays && err == nil {
		return time.Duration(n) * 24 * time.Hour, nil //nolint:gosec // 16 bits
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, cli.Usagef("--stale %s: not a time such as 90m, 2h or 30d", text)
	}
	return d, nil
}

// source returns what reads the nodes: from files or from the API.
func (f fleetFlags) source(paths []string) (func(context.Context) ([]fleet.Node, error), error) {
	var keys fleet.Keys
	var err error
	switch {
	case len(paths) > 0 && f.cluster != (clusterFlags{}):
		return nil, cli.Usagef("name reports, or a cluster with --kubeconfig or --context")
	case len(paths) == 0 && f.key != "":
		return nil, cli.Usagef("--key goes with files of reports")
	case len(paths) == 0:
		api, err := f.cluster.connect()
		return api.Nodes, err
	case f.key != "":
		if keys, err = fleet.ReadKeys(f.key); err != nil {
			return nil, err
		}
	}
	return func(context.Context) ([]fleet.Node, error) {
		objects, broken, err := fleet.Read(paths, keys)
		return fleet.Nodes(objects, broken, time.Now()), err
	}, nil
}

// ask reads the nodes and answers the query.
func ask(ctx context.Context, nodes func(context.Context) ([]fleet.Node, error), q fleet.Query) (fleet.Summary, error) {
	all, err := nodes(ctx)
	if err != nil {
		return fleet.Summary{}, err
	}
	q.Now = time.Now()
	return fleet.Summarize(all, q)
}

// show prints a summary, of files with each report. It returns errNotReady if a node is not ready.
func (f fleetFlags) show(w io.Writer, s fleet.Summary, files bool) error {
	var err error
	switch {
	case f.page.Wanted():
		err = f.page.Write(func(w io.Writer) error { return pages.Fleet(w, s, "pinbox "+version) })
	case f.output.Text():
		if files {
			err = printReports(w, s)
		}
		if err == nil {
			err = printFleet(w, s)
		}
	default:
		err = f.output.Encode(w, s)
	}
	if err == nil && !s.AllReady() {
		err = errNotReady
	}
	return err
}

// printReports prints how old the report of each node is.
func printReports(w io.Writer, s fleet.Summary) error {
	t := cli.Table(w)
	fmt.Fprintln(t, "NODE\tRELEASE\tREPORTED\tSTATE\tNEXT")
	for _, r := range s.Reports {
		release, age := "-", "never"
		if r.Release != (pinset.ReleaseID{}) {
			release = r.Release.Title()
		}
		if !r.Time.IsZero() {
			age = pages.Long(s.Time.Sub(r.Time)) + " ago"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.Node, release, age, cmp.Or(r.Reason, "ready"), cmp.Or(r.Next, "-"))
	}
	return t.Flush()
}

// maxNodesShown is how many nodes of a reason are shown as text.
const maxNodesShown = 5

func printFleet(w io.Writer, s fleet.Summary) error {
	t := cli.Table(w)
	if len(s.Sets) > 0 {
		fmt.Fprintln(t, "SET\tNODES\tREADY")
	}
	for _, set := range s.Sets {
		fmt.Fprintf(t, "%s\t%d\t%d\n", set.Name, set.Nodes, set.Ready)
	}
	if len(s.Releases) > 0 {
		fmt.Fprintln(t, "RELEASE\tNODES\t")
	}
	for _, r := range s.Releases {
		fmt.Fprintf(t, "%s\t%d\t\n", r.Title(), r.Nodes)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, reason := range s.NotReady {
		fmt.Fprintf(w, "%s: %s\n", reason.Reason, cli.Plural(len(reason.Nodes), "node"))
		for i, n := range reason.Nodes {
			if i == maxNodesShown {
				fmt.Fprintf(w, "  and %d more\n", len(reason.Nodes)-i)
				break
			}
			line := "  " + n.Node
			if n.BytesToGo > 0 {
				line += ", " + bytesize.Format(n.BytesToGo) + " to go"
			}
			if n.Text != "" {
				line += ": " + n.Text
			}
			fmt.Fprintln(w, line)
		}
	}
	if n := len(s.Wanted); n > 0 {
		fmt.Fprintf(w, "pods wanted %s that their nodes do not have, such as %s; --wanted takes them into the next build\n",
			cli.Plural(n, "image"), s.Wanted[0].Name)
	}
	if s.BytesToGo > 0 {
		fmt.Fprintf(w, "%s to go", bytesize.Format(s.BytesToGo))
		if !s.ETA.IsZero() {
			fmt.Fprintf(w, ", done at about %s", s.ETA.Format(time.RFC3339))
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w, "%d of %d nodes are ready\n", s.Ready, s.Nodes)
	return err
}

// clusterFlags name a cluster.
type clusterFlags struct{ kubeconfig, context string }

// add adds the flags.
func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` with the API of the cluster (default: as for kubectl)")
	cli.Files(flags, "kubeconfig")
	flags.StringVar(&f.context, "context", "", "`NAME` of the context in that file (default: the current one)")
}

func (f *clusterFlags) connect() (cluster.API, error) {
	return cluster.Connect(f.kubeconfig, f.context)
}
