// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

var noon = time.Date(2026, time.January, 7, 12, 0, 0, 0, time.UTC) // A Wednesday.

// after returns an instant after noon.
func after(d time.Duration) time.Time { return noon.Add(d) }

// instant reads RFC 3339.
func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}

type option func(*nhcv1alpha1.RemediationBudgetSpec)

// budget returns a RemediationBudget for all nodes.
func budget(name string, options ...option) *nhcv1alpha1.RemediationBudget {
	b := &nhcv1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	b.Spec.NodeSelector = &metav1.LabelSelector{}
	for _, option := range options {
		option(&b.Spec)
	}
	return b
}

func maxUnhealthy(limit string) option {
	return func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxUnhealthy = new(intstr.Parse(limit)) }
}

func maxConcurrent(limit string) option {
	return func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MaxConcurrent = new(intstr.Parse(limit)) }
}

func minInterval(d time.Duration) option {
	return func(s *nhcv1alpha1.RemediationBudgetSpec) { s.MinInterval = &metav1.Duration{Duration: d} }
}

func byZone(s *nhcv1alpha1.RemediationBudgetSpec) { s.TopologyKey = "zone" }

func because(reason string) option {
	return func(s *nhcv1alpha1.RemediationBudgetSpec) { s.Reason = reason }
}

func selecting(key, value string) option {
	return func(s *nhcv1alpha1.RemediationBudgetSpec) {
		s.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
}

// ofMachines lets a budget count Machines by the same labels.
func ofMachines(s *nhcv1alpha1.RemediationBudgetSpec) {
	s.MachineSelector = &nhcv1alpha1.BudgetMachineSelector{Namespace: "machines", Selector: *s.NodeSelector}
	s.NodeSelector = nil
}

func schedule(cron, zone string, d time.Duration) option {
	return func(s *nhcv1alpha1.RemediationBudgetSpec) {
		s.ActiveDuring = append(s.ActiveDuring, nhcv1alpha1.BudgetSchedule{Cron: cron, TimeZone: zone, Duration: metav1.Duration{Duration: d}})
	}
}

// zone is a label of a Node, none for the empty name.
func zone(name string) map[string]string {
	if name == "" {
		return map[string]string{"role": "worker"}
	}
	return map[string]string{"role": "worker", "zone": name}
}

func healthy(name string) Node { return Node{Exists: true, Labels: zone(name)} }

func notReady(name string) Node { return Node{Exists: true, Labels: zone(name), NotReady: true} }

func judged(name string) Node {
	return Node{Exists: true, Labels: zone(name), Observation: Observation{Unhealthy: true}}
}

// remediated is a node that has been under remediation for a day.
func remediated(name string) Node {
	return remediatedSince(name, after(-24*time.Hour))
}

func remediatedSince(name string, started time.Time) Node {
	return Node{Exists: true, Labels: zone(name), Observation: Observation{Remediating: true, Started: started}}
}

// counts returns Counts with budgets, and nodes named n1, n2 and so on.
func counts(budgets []*nhcv1alpha1.RemediationBudget, nodes ...Node) *Counts {
	c := NewCounts()
	for i, node := range nodes {
		c.SetNode(fmt.Sprintf("n%d", i+1), node)
	}
	for _, b := range budgets {
		c.SetBudget(Parse(b), nil)
	}
	return c
}

func budgets(list ...*nhcv1alpha1.RemediationBudget) []*nhcv1alpha1.RemediationBudget { return list }

// nhc is a asker.
func nhc(name string) Asker { return Asker{Kind: "NodeHealthCheck", Name: name} }

// due is a request that is unhealthy since some minutes before noon.
func due(node string, minutes int) Request {
	return Request{Node: node, Since: after(-time.Duration(minutes) * time.Minute), Begins: true}
}

// messages are those of refusals, by node.
func messages(refusals map[string]*Refusal) map[string]string {
	found := map[string]string{}
	for node, refusal := range refusals {
		found[node] = refusal.Message
	}
	return found
}

// begin lets an asker look once, and begin the admitted requests. It returns the
// refusals.
func begin(c *Counts, asker Asker, now time.Time, requests ...Request) map[string]string {
	refusals := c.Admit(asker, requests, now)
	for _, request := range requests {
		if request.Begins && refusals[request.Node] == nil {
			c.End(asker, request.Node, Begun, now)
		}
	}
	return messages(refusals)
}

// tally are the numbers of a group.
type tally struct{ observed, unhealthy, remediating int }

// snapshot returns the numbers of all groups.
func (c *Counts) snapshot() map[string]map[string]tally {
	all := map[string]map[string]tally{}
	for _, b := range c.budgets {
		all[b.Name] = map[string]tally{}
		for name, g := range b.groups {
			all[b.Name][name] = tally{observed: g.observed, unhealthy: g.unhealthy, remediating: g.remediating}
		}
	}
	return all
}
