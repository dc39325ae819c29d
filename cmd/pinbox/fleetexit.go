package main

import (
	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/sites"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/runtime/fleet"
)

// fleetErrors are the rows of `pinbox fleet`.
var fleetErrors = []cli.Row{
	{errNotReady, cli.ExitOther, 132, ""},
	{cluster.ErrKubeconfig, cli.ExitUsage, 133, "name a file with --kubeconfig, or files of reports"},
	{cluster.ErrNoReports, cli.ExitInput, 134, "docs/fleet.md says what to apply, and how the nodes follow a cluster"},
	{cluster.ErrAPI, cli.ExitRegistry, 135, "the user of the kubeconfig needs the rights of deploy/fleet-viewer.yaml"},
	{fleet.ErrNoNodes, cli.ExitInput, 136, "check the name of the set, or the files of reports"},
	{
		sites.ErrUnserved, cli.ExitOther, 175,
		"the others have their deltas; serve those that are named by a full build, or let them report again",
	},
	{sites.ErrNotServed, cli.ExitOther, 176, "report this as an error in pinbox; a full build works on every node"},
	{builder.ErrThinSites, cli.ExitUsage, 177, "leave out --thin, or name a base of each site with --from"},
	{fleet.ErrNotReport, cli.ExitInput, 137, "name files of `pinbox-node report`, or of `kubectl get nis -o json`"},
}
