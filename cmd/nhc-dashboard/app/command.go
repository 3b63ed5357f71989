// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app wires the dashboard in the cluster: flags, clients, HTTP servers and who may
// see the pages. It reads the cluster, and does nothing that the controller does.
package app

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nhc-controller/nhc-controller/pkg/program"
	"github.com/nhc-controller/nhc-controller/pkg/serving"
)

// name is what the dashboard calls itself, in its certificate, too.
const name = "nhc-dashboard"

// options are the flags of the dashboard.
type options struct {
	// kubeconfig is the path of a kubeconfig; empty means in-cluster.
	kubeconfig string
	// leaseNamespace is where the leases of nodes are.
	leaseNamespace string
	// cluster is a name for people, for the title of the pages.
	cluster string
	// address is where the pages are served, with HTTPS.
	address string
	tls     serving.TLS
	// probeAddress is where /livez and /readyz are served, "0" for nowhere.
	probeAddress string
}

func newOptions() *options {
	return &options{
		leaseNamespace: program.Environment("LEASE_NAMESPACE", "medik8s-leases"),
		address:        ":8443",
		tls:            serving.NewTLS(),
		probeAddress:   ":8081",
	}
}

// NewCommand returns the command that serves the dashboard in the cluster.
func NewCommand() *cobra.Command {
	options := newOptions()
	return program.Program{
		Name:  name,
		Short: "Serves the dashboard, and changes nothing",
		Long: `nhc-dashboard serves the pages of kubectl nhc dashboard in the cluster, over HTTPS. It reads
the cluster as its own ServiceAccount and changes nothing. Who may see the pages, the API
server decides by the bearer token of each request: see docs/dashboard-in-cluster.md.`,
		AddFlags: options.addFlags,
		Validate: options.validate,
		Run:      func(ctx context.Context) error { return run(ctx, options) },
	}.Command()
}

// addFlags adds the flags to a set.
func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "Path of a kubeconfig file. Without it the ServiceAccount of the pod is used.")
	flags.StringVar(&o.leaseNamespace, "lease-namespace", o.leaseNamespace, "Namespace of the leases of nodes. Env LEASE_NAMESPACE sets it too.")
	flags.StringVar(&o.cluster, "cluster-name", o.cluster, "Name of the cluster in the title of the pages.")
	flags.StringVar(&o.address, "bind-address", o.address, "Address of the pages, served over HTTPS to clients with permission.")
	o.tls.AddFlags(flags, "the pages")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", o.probeAddress, "Address of /livez and /readyz. 0 turns them off.")
}

// validate returns what is wrong with the options.
func (o *options) validate() field.ErrorList {
	var problems field.ErrorList
	if o.leaseNamespace == "" {
		problems = append(problems, field.Required(field.NewPath("--lease-namespace"), "the leases of nodes need a namespace"))
	}
	return append(problems, o.tls.Validate()...)
}
