// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/buildinfo"
)

// dashboardOptions are the flags of the dashboard. Of those of the controller it has a few.
type dashboardOptions struct {
	*Options
	// address is where the pages are served.
	address string
	// cluster is a name for people, for the title of the pages.
	cluster string
}

func newDashboardOptions() *dashboardOptions {
	return &dashboardOptions{Options: NewOptions(), address: ":8443"}
}

// newDashboardCommand returns the command that serves the dashboard in the cluster. It does nothing
// that the controller does.
func newDashboardCommand() *cobra.Command {
	options, build := newDashboardOptions(), buildinfo.Version()
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve the dashboard, and do nothing else",
		Long: `Serves the pages of kubectl nhc dashboard in the cluster, over HTTPS. It reads the cluster
as its own ServiceAccount and changes nothing. Who may see the pages, the API server
decides by the bearer token of each request: see docs/dashboard-in-cluster.md.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(options.Logging, nil); err != nil {
				return usageError(command, err)
			}
			if problems := options.validate(); len(problems) > 0 {
				return usageError(command, problems.ToAggregate())
			}
			cliflag.PrintFlags(command.Flags())
			ctx, stop := signalContext(command.Context())
			defer stop()
			klog.FromContext(ctx).Info("Starting the dashboard", "version", build.GitVersion, "commit", build.GitCommit)
			return runDashboard(ctx, options)
		},
	}
	command.SetFlagErrorFunc(usageError)
	logsapi.AddFlags(options.Logging, command.Flags())
	options.addFlags(command.Flags())
	return command
}

// addFlags adds the flags to a set.
func (o *dashboardOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Path of a kubeconfig file. Without it the ServiceAccount of the pod is used.")
	flags.StringVar(&o.LeaseNamespace, "lease-namespace", o.LeaseNamespace, "Namespace of the leases of nodes. Env LEASE_NAMESPACE sets it too.")
	flags.StringVar(&o.cluster, "cluster-name", o.cluster, "Name of the cluster in the title of the pages.")
	flags.StringVar(&o.address, "bind-address", o.address, "Address of the pages, served over HTTPS to clients with permission.")
	flags.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile, "File with the certificate of the pages and its intermediate certificates. "+
		"The dashboard reads it again when it changes. Without it, the dashboard makes a certificate at its start.")
	flags.StringVar(&o.TLSPrivateKeyFile, "tls-private-key-file", o.TLSPrivateKeyFile, "File with the private key of --tls-cert-file.")
	flags.StringVar(&o.TLSMinVersion, "tls-min-version", o.TLSMinVersion, "Lowest version of TLS: "+tlsVersionNames()+".")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", o.ProbeAddress, "Address of /livez and /readyz. 0 turns them off.")
}

// validate returns what is wrong with the options.
func (o *dashboardOptions) validate() field.ErrorList {
	var problems field.ErrorList
	if o.LeaseNamespace == "" {
		problems = append(problems, field.Required(field.NewPath("--lease-namespace"), "the leases of nodes need a namespace"))
	}
	return append(problems, validateTLS(o.Options)...)
}
