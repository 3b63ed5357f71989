// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app wires the controller: flags, clients, informers, leader election and
// HTTP servers. With pkg/program, it is the only code of the controller that reads flags
// and the environment.
package app

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nhc-controller/nhc-controller/pkg/program"
)

// NewCommand returns the command of the controller. It ends with an error, and
// thus with exit code 1, on bad flags, a failed start and a lost leader lease, and
// without one after SIGTERM or SIGINT.
func NewCommand() *cobra.Command {
	options := NewOptions()
	return program.Program{
		Name:  "nhc-controller",
		Short: "Has unhealthy Nodes repaired, as the NodeHealthChecks of the cluster say",
		Long: `nhc-controller watches the Nodes that NodeHealthChecks select, decides from their
conditions which are unhealthy, and creates a remediation object for each of them
from the template that the NodeHealthCheck refers to. It deletes the object when
the Node is healthy again.`,
		AddFlags: options.AddFlags,
		Validate: options.Validate,
		Run:      func(ctx context.Context) error { return Run(ctx, options) },
	}.Command()
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() field.ErrorList {
	var problems field.ErrorList
	positive := func(flag string, value float64) {
		if value <= 0 {
			problems = append(problems, field.Invalid(field.NewPath("--"+flag), value, "must be greater than zero"))
		}
	}
	positive("kube-api-qps", float64(o.QPS))
	positive("kube-api-burst", float64(o.Burst))
	positive("concurrent-syncs", float64(o.ConcurrentSyncs))
	positive("machine-backoff-base", o.MachineBackOff.Base.Seconds())
	if o.MachineBackOff.Cap < o.MachineBackOff.Base {
		problems = append(problems, field.Invalid(field.NewPath("--machine-backoff-cap"), o.MachineBackOff.Cap.String(), "must not be less than --machine-backoff-base"))
	}
	problems = append(problems, validateControllers(o.Controllers)...)
	if o.LeaseNamespace == "" {
		problems = append(problems, field.Required(field.NewPath("--lease-namespace"), "the leases of nodes need a namespace"))
	}
	if o.LeaderElection.LeaderElect {
		problems = append(problems, validateLeaderElection(&o.LeaderElection)...)
	}
	return append(problems, o.TLS.Validate()...)
}
