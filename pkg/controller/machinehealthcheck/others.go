// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// observeOthers adds the obstacles that other objects are: other Machines of the Node, a paused Cluster, and other
// health checks for the same Machines (spec M5.4, M9.2, M7.4, M4.4).
func (c *Controller) observeOthers(s *snapshot) {
	others := c.othersOf(s.check)
	for _, other := range others {
		if slices.ContainsFunc(s.observed, func(o machinehealth.Observed) bool { return !o.Unselected && c.criteriaOf(other).Selects(o.Machine) }) {
			s.overlaps = append(s.overlaps, other.Name)
		}
	}
	left := c.leftToClusterAPI(s.check.Namespace)
	for i := range s.targets {
		t := &s.targets[i]
		if t.Gone {
			continue
		}
		t.Obstacles.AmbiguousNode, t.Obstacles.ClusterPaused = c.ambiguous(t.Machine), c.clusterPaused(t.Machine)
		if t.Unselected {
			continue
		}
		first := slices.IndexFunc(others, func(other *v1beta1.MachineHealthCheck) bool {
			return c.criteriaOf(other).Precedes(s.policy.Criteria, t)
		})
		switch working := c.workingOn(s.check, t.Machine); {
		case left[t.Machine.Name] && t.Machine.API() == v1beta1.MachineAPICluster:
			t.Obstacles.OtherCheck = "of Cluster API"
		case working != "":
			t.Obstacles.OtherCheck = working
		case first >= 0:
			t.Obstacles.OtherCheck = keyOf(others[first]).String()
		}
	}
}

// ambiguous returns the first other Machine by name that is not being deleted and names the same Node, empty if
// there is none.
func (c *Controller) ambiguous(machine *machinehealth.Machine) (name string) {
	if machine.Node == "" {
		return ""
	}
	for _, other := range c.machinesOf(machine.Node) {
		if other.UID == machine.UID || other.Deleting() {
			continue
		}
		if key := other.Namespace + "/" + other.Name; name == "" || key < name {
			name = key
		}
	}
	return name
}

// othersOf returns the other MachineHealthChecks of the namespace, by name.
func (c *Controller) othersOf(check *v1beta1.MachineHealthCheck) []*v1beta1.MachineHealthCheck {
	checks, _ := c.checks.MachineHealthChecks(check.Namespace).List(labels.Everything()) // A cache in memory has no errors.
	others := slices.DeleteFunc(checks, func(other *v1beta1.MachineHealthCheck) bool {
		return other.Name == check.Name || other.DeletionTimestamp != nil
	})
	slices.SortFunc(others, func(a, b *v1beta1.MachineHealthCheck) int { return strings.Compare(a.Name, b.Name) })
	return others
}

// workingOn returns another MachineHealthCheck that has a CR for a Machine, empty if there is none. It need not select
// the Machine any more, and may be gone: a remediator works until the CR is gone.
func (c *Controller) workingOn(check *v1beta1.MachineHealthCheck, machine *machinehealth.Machine) string {
	for _, cr := range c.cachedCRs(machine.Namespace, machine.Name) {
		for _, other := range c.checksOf(cr) {
			if other != keyOf(check) {
				return other.String()
			}
		}
	}
	return ""
}

// judge judges a Machine by the criteria of any MachineHealthCheck, as the caches show it.
func (c *Controller) judge(criteria *machinehealth.Criteria, machine *machinehealth.Machine, now time.Time) machinehealth.Verdict {
	node, state := c.NodeCache.Get(machine.Node), machinehealth.NodeUnknown
	switch {
	case node != nil:
		state = machinehealth.NodeExists
	case c.isMissing(machine.Node):
		state = machinehealth.NodeMissing
	}
	return criteria.Judge(machine, state, health.EvidenceOf(node, c.Sightings.Of(node)), false, now)
}
