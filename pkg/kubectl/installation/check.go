// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation checks whether the controller is installed as this version ships it, and
// works. It changes nothing, and assumes nothing that it cannot read.
package installation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/cluster"
)

// Options say what Check looks for.
type Options struct {
	// Account is the ServiceAccount of the controller, in the namespace of its Deployment. The default is that of the
	// manifests, in the namespace of the leader.
	Account cluster.ServiceAccount
	// LeaseNamespace is that of the leases of nodes.
	LeaseNamespace string
	// Version is that of this program.
	Version string
	// Now reads the clock of this computer.
	Now func() time.Time
}

func (p *Part) problem(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

// unknown records once why something cannot be read.
func (p *Part) unknown(err error, verb, resource string) {
	p.unread(cluster.Explain(err, verb, resource).Error())
}

func (p *Part) unread(reason string) {
	if !slices.Contains(p.Unread, reason) {
		p.Unread = append(p.Unread, reason)
	}
}

// checker looks at one installation.
type checker struct {
	*cluster.Clients
	Options
	shipped *shipped
	// machines means that the controller remediates Machines.
	machines bool
	// now is the time of the API server, as far as it is known.
	now time.Time
}

// Check looks at the installation once. There is an error only if the cluster cannot be asked at all.
func Check(ctx context.Context, clients *cluster.Clients, options Options) (*Report, error) {
	c := &checker{Clients: clients, Options: options, now: options.Now()}
	version, err := clients.Kube.Discovery().ServerVersion()
	if err != nil {
		return nil, cluster.Explain(err, "ask", "the cluster")
	}
	leader, leaderErr := cluster.ReadLeader(ctx, clients)
	c.Account = accountOf(c.Account, leader)
	deployment := c.deployment(ctx)
	if c.shipped, err = newShipped(c.Account, c.machines); err != nil {
		return nil, err
	}
	creation := c.creation(ctx) // Which also tells the time.
	report := &Report{Parts: []*Part{
		{Name: "API server", Found: version.GitVersion},
		c.crds(ctx), c.namespace(ctx), c.policies(ctx), c.permissions(ctx), deployment, c.atWork(leader, leaderErr), c.references(ctx), c.leftovers(ctx), creation,
	}}
	if err := ctx.Err(); err != nil {
		return nil, cluster.Explain(err, "ask", "the cluster")
	}
	return report, nil
}
