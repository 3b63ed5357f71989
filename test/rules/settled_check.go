// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// settledCheck is a snapshot for one NodeHealthCheck: the status and the actions that it
// demands.
type settledCheck struct {
	*snapshot
	nhc *NHC
	// unhealthy are selected nodes (spec 7.3).
	unhealthy sets.Set[string]
	// own are the CRs by node. Those of deleted nodes that are being deleted do not count:
	// they are leftovers (spec 17.4).
	own       map[string][]*CR
	leftovers []*CR
	counts    NodeCounts
	gate      bool // It is open.
	left      []Violation
}

func newSettledCheck(p *snapshot, nhc *NHC) *settledCheck {
	s := &settledCheck{snapshot: p, nhc: nhc, unhealthy: sets.New[string](), own: map[string][]*CR{}}
	for _, key := range slices.Sorted(maps.Keys(p.crs)) {
		cr := p.crs[key].at(p.rv)
		switch {
		case cr == nil || !cr.OwnedBy(nhc.Name):
		case cr.Deleting && p.nodes[cr.Node].at(p.rv) == nil:
			s.leftovers = append(s.leftovers, cr)
		default:
			s.own[cr.Node] = append(s.own[cr.Node], cr)
		}
	}
	observed, healthy, remediated := 0, 0, 0
	for name, versions := range p.nodes {
		node := versions.at(p.rv)
		if node == nil || !nhc.Selects(node) {
			continue
		}
		observed++
		if len(s.own[name]) > 0 {
			remediated++
		}
		switch {
		case Unhealthy(nhc.Spec.UnhealthyConditions, node, p.now):
			s.unhealthy.Insert(name)
		case !NotHealthy(nhc.Spec.UnhealthyConditions, node) && len(s.own[name]) == 0:
			healthy++
		}
	}
	not := observed - healthy
	s.counts = NodeCounts{
		ObservedMin: observed, ObservedMax: observed, NotHealthyMin: not, NotHealthyMax: not,
		HealthyMin: healthy, HealthyMax: healthy, RemediatedMax: remediated, Unhealthy: len(s.unhealthy) > 0,
	}
	s.gate = s.counts.MayBeOpen(&nhc.Spec)
	return s
}

// check counts a check of a rule, and notes it if it is broken.
func (s *settledCheck) check(rule, node string, broken bool, format string, args ...any) {
	s.checks[rule]++
	if broken {
		s.left = append(s.left, Violation{Rule: rule, Node: node, NHC: s.nhc.Name, Text: fmt.Sprintf(format, args...)})
	}
}

// violations returns the violations of the snapshot.
func (s *settledCheck) violations() []Violation {
	s.checkStorm()
	for _, node := range sets.List(s.unhealthy) {
		s.checkUnhealthy(node)
	}
	for _, node := range slices.Sorted(maps.Keys(s.own)) {
		s.checkOwn(node, s.own[node])
		s.checkLease(node)
	}
	for _, cr := range s.leftovers {
		s.check("13.8", cr.Node, !cr.Marked && cr.Succeeded != "True", "%s is being deleted, its Node is gone, and its remediator is not told to stop", cr)
	}
	return s.left
}

// checkStorm judges that a storm begins, and ends, when it has to (spec 9.2, 9.5).
func (s *settledCheck) checkStorm() {
	spec, status := &s.nhc.Spec, &s.nhc.Status
	active := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStormActive)
	s.check("9.2", "", Stormy(spec) && s.counts.MayBegin(spec) && !active, "no storm, with %+v", s.counts)
	s.check("9.5", "", active && (!Stormy(spec) || s.counts.Calm(spec) && cooledDown(spec, status, s.now)), "the storm is not over, with %+v", s.counts)
}

// entry returns what status says about a node, nil if nothing.
func (s *settledCheck) entry(node string) *v1alpha1.UnhealthyNode {
	for i := range s.nhc.Status.UnhealthyNodes {
		if s.nhc.Status.UnhealthyNodes[i].Name == node {
			return &s.nhc.Status.UnhealthyNodes[i]
		}
	}
	return nil
}
