// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Activity has the nodes and Machines of an overview that are under remediation, wait, are healthy
// again, or are next. In each list, the longest time comes first.
type Activity struct {
	Remediating, Waiting, Recovered []Subject
	Next                            []Upcoming
}

// Subject is a node, or a Machine, with the name of its health check.
type Subject struct {
	// Check is namespace/name for a MachineHealthCheck.
	Check string
	// Machine means that the target is a Machine.
	Machine bool
	*Target
}

// Upcoming is a node that becomes unhealthy if nothing changes.
type Upcoming struct {
	Check string
	*NextNode
}

// NewActivity returns the activity of an overview.
func NewActivity(overview *Overview) *Activity {
	a := &Activity{}
	for i := range overview.NodeHealthChecks {
		check := &overview.NodeHealthChecks[i]
		for j := range check.Nodes {
			a.add(Subject{Check: check.Name, Target: &check.Nodes[j]})
		}
		for j := range check.Next {
			a.Next = append(a.Next, Upcoming{Check: check.Name, NextNode: &check.Next[j]})
		}
	}
	for i := range overview.MachineHealthChecks {
		check := &overview.MachineHealthChecks[i]
		for j := range check.Machines {
			a.add(Subject{Check: check.Namespace + "/" + check.Name, Machine: true, Target: &check.Machines[j]})
		}
	}
	for _, subjects := range [][]Subject{a.Remediating, a.Waiting, a.Recovered} {
		slices.SortStableFunc(subjects, func(a, b Subject) int {
			return cmp.Or(compareInstants(a.Detected, b.Detected), cmp.Compare(a.Name, b.Name))
		})
	}
	slices.SortStableFunc(a.Next, func(a, b Upcoming) int { return compareInstants(a.Unhealthy, b.Unhealthy) })
	return a
}

// add adds a subject to the list of its decision.
func (a *Activity) add(subject Subject) {
	switch decision := subject.Decision; {
	case decision != nil && decision.Type == v1alpha1.DecisionRemediating:
		a.Remediating = append(a.Remediating, subject)
	case subject.HealthySince != nil, decision != nil && decision.Type == v1alpha1.DecisionDelayed:
		a.Recovered = append(a.Recovered, subject)
	default:
		a.Waiting = append(a.Waiting, subject)
	}
}
