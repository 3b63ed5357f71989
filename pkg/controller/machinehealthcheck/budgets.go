// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
)

// noteVerdicts tells RemediationBudgets the targets whose verdict has changed since the last
// sync. Time alone or a live read may change a verdict without an event.
func (c *Controller) noteVerdicts(s *snapshot) {
	now := sets.New[string]()
	for i := range s.targets {
		if t := &s.targets[i]; !t.Unselected && notHealthy(t.Verdict.State) {
			now.Insert(t.Machine.SlotName())
		}
	}
	for name := range now.SymmetricDifference(s.state.notHealthy) {
		c.Budgets.NodeChanged(name)
	}
	s.state.notHealthy = now
}

// noteDeletions tells RemediationBudgets the deletions that may have changed, begun or ended since the last sync, and
// returns when time ends one.
func (c *Controller) noteDeletions(s *snapshot) (recheck time.Time) {
	for _, one := range s.state.deletions {
		c.Budgets.NodeChanged(one.name)
	}
	s.state.deletions = c.deletionsOf(s.check)
	for _, one := range s.state.deletions {
		c.Budgets.NodeChanged(one.name)
		recheck = health.Earliest(recheck, one.until)
	}
	return recheck
}

// Observe returns what the MachineHealthChecks know of a node, or of a Machine without a Node, as
// RemediationBudgets count it (spec B3).
func (c *Controller) Observe(name string) budget.Observation {
	if !c.Active() {
		return budget.Observation{}
	}
	var observed budget.Observation
	remediating := func(since time.Time) { observed.Merge(budget.Observation{Remediating: true, Started: since}) }
	for _, one := range c.deletions() {
		if one.name == name {
			remediating(one.started)
		}
	}
	for _, cr := range c.crsNamed(name) {
		if c.cachedMachine(cr.Namespace, cr.Name) == nil { // Otherwise it counts under the name of its Machine.
			remediating(cr.CreationTimestamp.Time)
		}
	}
	for _, machine := range c.machinesOf(name) {
		observed.Unhealthy = observed.Unhealthy || c.judgedUnhealthy(machine)
		for _, cr := range c.cachedCRs(machine.Namespace, machine.Name) {
			if len(ownersOf(cr)) > 0 {
				remediating(cr.CreationTimestamp.Time)
			}
		}
		if machine.Has(v1beta1.AnnotationExternalRemediation) {
			remediating(time.Time{}) // Nothing says since when.
		}
	}
	return observed
}

// crName returns the name by which a CR counts if its Machine is gone.
func crName(cr *object.CR) string {
	return cmp.Or(cr.Annotations[v1alpha1.AnnotationNodeName], machinehealth.SlotName(cr.Namespace, cr.Name))
}

// crsNamed returns the CRs of MachineHealthChecks that count by a name if their Machines are gone.
func (c *Controller) crsNamed(name string) (crs []*object.CR) {
	for _, indexer := range c.Remediations.Caches() {
		crs = append(crs, watches.Indexed[*object.CR](indexer, crsByName, name)...)
	}
	return crs
}

// countCR tells RemediationBudgets that a CR has changed.
func (c *Controller) countCR(cr *object.CR) {
	c.Budgets.NodeChanged(crName(cr))
	if machine := c.cachedMachine(cr.Namespace, cr.Name); machine != nil {
		c.Budgets.NodeChanged(machine.SlotName())
	}
}

// Remediating returns the names of everything under remediation. Its Machines may be gone.
func (c *Controller) Remediating() (names []string) {
	for _, one := range c.deletions() {
		names = append(names, one.name)
	}
	for _, indexer := range c.Remediations.Caches() {
		names = append(names, indexer.ListIndexFuncValues(crsByName)...)
	}
	return names
}

// judgedUnhealthy reports whether a MachineHealthCheck judges a Machine unhealthy or soon unhealthy.
func (c *Controller) judgedUnhealthy(machine *machinehealth.Machine) bool {
	return slices.ContainsFunc(c.selecting(machine), func(check *v1beta1.MachineHealthCheck) bool {
		return notHealthy(c.judge(c.criteriaOf(check), machine, c.Clock.Now()).State)
	})
}

// notHealthy reports whether the state of a target alone makes it count as not healthy (spec
// B3.1).
func notHealthy(state machinehealth.State) bool {
	return state == machinehealth.SoonUnhealthy || state == machinehealth.Unhealthy
}

// MachineOf returns the Machine of a Node, or the Machine that a name stands for, as
// RemediationBudgets count it. If several Machines name one Node, it is the first by name.
func (c *Controller) MachineOf(name string) budget.Machine {
	machines := c.machinesOf(name)
	if len(machines) == 0 {
		return c.goneMachine(name)
	}
	machine := slices.MinFunc(machines, func(a, b *machinehealth.Machine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return budget.Machine{Exists: true, Namespace: machine.Namespace, Labels: machine.Labels}
}

// goneMachine returns what is known of a Machine that is gone and under remediation, for a process that has not seen
// it: its namespace, and the labels of another Machine of its owner.
func (c *Controller) goneMachine(name string) (gone budget.Machine) {
	for _, one := range c.deletions() {
		if one.name != name {
			continue
		}
		gone.Namespace = one.namespace
		for indexer := range c.machineCaches {
			for _, other := range watches.Indexed[*machinehealth.Machine](indexer, cache.NamespaceIndex, one.namespace) {
				if owner := other.Owner(); owner != nil && owner.UID == one.owner {
					gone.Labels = other.Labels
				}
			}
		}
	}
	for _, cr := range c.crsNamed(name) {
		gone.Namespace = cr.Namespace
	}
	return gone
}

// MachineNames returns the names of all Machines as MachineOf knows them.
func (c *Controller) MachineNames() (names []string) {
	for indexer := range c.machineCaches {
		names = append(names, indexer.ListIndexFuncValues(machinesByNode)...)
	}
	return names
}

// MachinesReadable returns why Machines cannot be read: Machines of OpenShift, and those of Cluster API
// if a MachineHealthCheck is about them. An API that is not served has no Machines.
func (c *Controller) MachinesReadable() error {
	return c.eachMachines(func(kind schema.GroupVersionKind) error {
		_, err := c.machines.Cache(kind)
		if err == nil || errors.Is(err, watches.ErrPending) {
			return err
		}
		return fmt.Errorf("reading %s: %w", kind.GroupKind(), err)
	})
}
