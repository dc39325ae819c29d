package main

import (
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime/cluster"
)

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
