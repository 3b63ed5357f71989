// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/execute"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// holdsFor reports whether holder holds the lease of the Node of a Machine whose remediation has not ended. It
// keeps the lease until then, also if another MachineHealthCheck selects the Machine in the meantime (spec M10.3,
// M15.2).
func (c *Controller) holdsFor(holder string, machine *machinehealth.Machine) bool {
	if machine.Node == "" || !isRemediating(machine) {
		return false
	}
	return remediation.LeaseHolder(c.LeaseFor(machine.Node)) == holder
}

// protects reports whether the Machine of a lease is still being deleted or remediated by another controller, or the
// holder has a CR for it.
func (c *Controller) protects(lease *coordinationv1.Lease) bool {
	node, ok := object.NodeOfLease(lease)
	if !ok {
		return false
	}
	holder, crs := remediation.LeaseHolder(lease), c.crsNamed(node)
	for _, machine := range c.machinesOf(node) {
		if c.holdsFor(holder, machine) {
			return true
		}
		crs = append(crs, c.cachedCRs(machine.Namespace, machine.Name)...)
	}
	key, _ := object.MachineHealthCheckOfHolder(holder)
	return slices.ContainsFunc(crs, func(cr *object.CR) bool {
		return slices.ContainsFunc(c.checksOf(cr), func(owner cache.ObjectName) bool { return owner.String() == key })
	})
}

// endLeases releases leases of Nodes that no target of their MachineHealthCheck names. It keeps a lease while a
// remediation of its Machine goes on, so that no other controller acts on the Node (spec M10.3, M15.2). As long as
// Machines have not been read, leases stay as they are. If CRs cannot be read, each of the Nodes may have one (spec P5).
// It returns when to look again.
func (c *Controller) endLeases(ctx context.Context, held []*coordinationv1.Lease, incomplete bool) (recheck time.Time, err error) {
	var needless []*coordinationv1.Lease
	var errs []error
	known := c.machinesKnown()
	for _, lease := range held {
		switch {
		case incomplete || c.protects(lease):
			due, err := c.keepLease(ctx, lease)
			recheck, errs = health.Earliest(recheck, due), append(errs, err)
		case known:
			needless = append(needless, lease)
		}
	}
	return recheck, errors.Join(append(errs, c.DeleteLeases(ctx, needless))...)
}

// keepLease renews a lease, and returns when it is due again.
func (c *Controller) keepLease(ctx context.Context, lease *coordinationv1.Lease) (due time.Time, err error) {
	if renewed := remediation.RenewLease(lease, v1alpha1.ClassicDuration, c.Clock.Now()); renewed != nil {
		lease, err = c.Kube.CoordinationV1().Leases(c.LeaseNamespace).Update(ctx, renewed, metav1.UpdateOptions{FieldManager: execute.FieldManager})
		if err != nil {
			return time.Time{}, fmt.Errorf("renewing lease %s: %w", renewed.Name, err)
		}
	}
	return remediation.RenewalDue(lease), nil
}

// observeHeldLeases finds the leases for Nodes that no target names.
func (s *snapshot) observeHeldLeases() {
	named := sets.New[string]()
	for i := range s.targets {
		if node := s.targets[i].Machine.Node; node != "" {
			named.Insert(object.LeaseName(node))
		}
	}
	for _, lease := range s.held {
		if !named.Has(lease.Name) {
			s.needless = append(s.needless, lease)
		}
	}
}
