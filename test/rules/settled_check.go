// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// settledCheck is what a snapshot means to one NodeHealthCheck: what its status has to
// say, and what has to be done.
type settledCheck struct {
	*snapshot
	nhc *NHC
	// observedCount and healthyCount are the counts (spec 7.1, 7.6).
	observedCount, healthyCount int
	// unhealthy and soon are selected nodes (spec 7.3), healthy those without any match.
	unhealthy, soon, healthy sets.Set[string]
	// own are the CRs by node. Those of deleted nodes that are going do not count.
	own  map[string][]*CR
	gate bool
}

func newSettledCheck(p *snapshot, nhc *NHC) *settledCheck {
	s := &settledCheck{snapshot: p, nhc: nhc, unhealthy: sets.New[string](), soon: sets.New[string](), healthy: sets.New[string](), own: map[string][]*CR{}}
	for _, versions := range p.crs {
		cr := versions.at(p.rv)
		if cr != nil && cr.OwnedBy(nhc.Name) && lookedFor(nhc, cr) && (!cr.Deleting || p.nodes[cr.Node].at(p.rv) != nil) {
			s.own[cr.Node] = append(s.own[cr.Node], cr)
		}
	}
	for name, versions := range p.nodes {
		node := versions.at(p.rv)
		if node == nil || !nhc.Selects(node) {
			continue
		}
		s.observedCount++
		switch {
		case Unhealthy(nhc.Spec.UnhealthyConditions, node, p.now):
			s.unhealthy.Insert(name)
		case Matches(nhc.Spec.UnhealthyConditions, node):
			s.soon.Insert(name)
		default:
			s.healthy.Insert(name)
			if len(s.own[name]) == 0 {
				s.healthyCount++
			}
		}
	}
	s.gate = s.nodeCounts().MayBeOpen(&nhc.Spec)
	return s
}

func (s *settledCheck) nodeCounts() NodeCounts {
	return NodeCounts{ObservedMin: s.observedCount, ObservedMax: s.observedCount, NotHealthyMin: s.observedCount - s.healthyCount, HealthyMax: s.healthyCount, Unhealthy: len(s.unhealthy) > 0}
}

func (s *settledCheck) violations() []Violation {
	var left []Violation
	report := func(rule, node, format string, args ...any) {
		left = append(left, Violation{Rule: rule, Node: node, Text: fmt.Sprintf(format, args...)})
	}
	s.judgeStatus(report)
	s.judgeEntries(report)
	s.judgeStorm(report)
	for _, node := range sets.List(s.unhealthy) {
		if len(s.own[node]) == 0 && s.refusal(node) == "" {
			report("P12", node, "the node is unhealthy and nothing is in the way, but there is no CR")
		}
	}
	for node, crs := range s.own {
		s.judgeOwn(node, crs, report)
	}
	return left
}

// reportFunc notes something that must not stay.
type reportFunc func(rule, node, format string, args ...any)

func (s *settledCheck) judgeStatus(report reportFunc) {
	status := &s.nhc.Status
	switch {
	case status.ObservedNodes == nil || status.HealthyNodes == nil:
		report("7.8", "", "status has no counts")
	case int(*status.ObservedNodes) != s.observedCount || int(*status.HealthyNodes) != s.healthyCount:
		report("7.8", "", "status has %d of %d nodes healthy, there are %d of %d", *status.HealthyNodes, *status.ObservedNodes, s.healthyCount, s.observedCount)
	}
	if status.ObservedGeneration != s.nhc.Generation {
		report("18.5", "", "observedGeneration is %d of %d", status.ObservedGeneration, s.nhc.Generation)
	}
	remediating := 0
	for i := range status.UnhealthyNodes {
		if len(status.UnhealthyNodes[i].Remediations) > 0 {
			remediating++
		}
	}
	phase, reason := v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
	switch disabled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDisabled); {
	case disabled == nil:
		report("6.2", "", "there is no condition Disabled")
		return
	case disabled.Status == "True":
		phase, reason = v1alpha1.PhaseDisabled, "NHC is disabled: "+disabled.Reason+": "+disabled.Message
	case len(s.nhc.Spec.PauseRequests) > 0:
		phase, reason = v1alpha1.PhasePaused, "NHC is paused: "+strings.Join(s.nhc.Spec.PauseRequests, ",")
	case remediating > 0:
		phase, reason = v1alpha1.PhaseRemediating, fmt.Sprintf("NHC is remediating %d nodes", remediating)
	}
	if status.Phase != phase || status.Reason != reason {
		report("18.1", "", "phase is %s, %q, not %s, %q", status.Phase, status.Reason, phase, reason)
	}
}

// judgeEntries compares unhealthyNodes with what exists (spec 18.3, 18.4).
func (s *settledCheck) judgeEntries(report reportFunc) {
	want := s.unhealthy.Clone()
	for node := range s.own {
		want.Insert(node)
	}
	listed := sets.New[string]()
	for i := range s.nhc.Status.UnhealthyNodes {
		entry := &s.nhc.Status.UnhealthyNodes[i]
		listed.Insert(entry.Name)
		uids, stated := sets.New[string](), sets.New[string]()
		for _, cr := range s.own[entry.Name] {
			uids.Insert(string(cr.UID))
		}
		for _, remediation := range entry.Remediations {
			stated.Insert(string(remediation.Resource.UID))
		}
		if !uids.Equal(stated) {
			report("18.3", entry.Name, "status has the CRs %s, there are %s", names(stated), names(uids))
		}
		if s.healthy.Has(entry.Name) != (entry.ConditionsHealthyTimestamp != nil) && !s.unselected(entry.Name) {
			report("16.2", entry.Name, "conditionsHealthyTimestamp is %v", entry.ConditionsHealthyTimestamp)
		}
	}
	if missing := want.Difference(listed); len(missing) > 0 {
		report("18.4", sets.List(missing)[0], "status does not list %s", names(missing))
	}
	// An entry of a node that is soon unhealthy may stay (spec 7.5).
	if wrong := listed.Difference(want).Difference(s.soon); len(wrong) > 0 {
		report("18.4", sets.List(wrong)[0], "status lists %s", names(wrong))
	}
}

// unselected reports whether a node is gone or no longer selected.
func (s *settledCheck) unselected(node string) bool {
	return !s.unhealthy.Has(node) && !s.soon.Has(node) && !s.healthy.Has(node)
}

// judgeStorm compares the conditions of the storm with its rules, as far as the present
// alone decides (spec 9.2 to 9.5).
func (s *settledCheck) judgeStorm(report reportFunc) {
	spec, status := &s.nhc.Spec, &s.nhc.Status
	active := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStormActive)
	counts := s.nodeCounts()
	begins := spec.StormCooldownDuration != nil && !s.gate && counts.Unhealthy
	if spec.StormRecoveryThreshold != nil && counts.NotHealthyMin > int(*spec.StormRecoveryThreshold) && counts.Unhealthy && !s.gate {
		begins = true
	}
	switch {
	case !Stormy(spec) && active:
		report("9.10", "", "a storm is active without being configured")
	case begins && !active:
		report("9.2", "", "no storm, with %+v", counts)
	case active && counts.Calm(spec): // A cooldown ends by itself.
		report("9.5", "", "the storm is not over, with %+v", counts)
	}
}

// refusal says why an unhealthy node need not get its first CR (spec 5.4), or "".
func (s *settledCheck) refusal(name string) string {
	node := s.nodes[name].at(s.rv)
	status := &s.nhc.Status
	switch {
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDisabled):
		return "disabled"
	case len(s.nhc.Spec.PauseRequests) > 0:
		return "paused"
	case !s.gate:
		return "gate"
	case Stormy(&s.nhc.Spec) && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStormActive):
		return "storm"
	case node.Labels[v1alpha1.LabelExclude] == "true":
		return "excluded"
	case node.ControlPlane() && s.slotTaken(name):
		return "control plane"
	case node.ControlPlane() && !s.quorumWithout(name):
		return "etcd"
	case s.othersCR(name, s.nhc.Name):
		return "foreign CR"
	case s.leaseTaken(name, s.nhc.Name):
		return "lease"
	case s.hasOwn(name, s.nhc.Name):
		return "the old CR is going"
	default:
		return ""
	}
}

// judgeOwn judges the CRs of a node that is healthy or gone.
func (s *settledCheck) judgeOwn(name string, crs []*CR, report reportFunc) {
	node := s.nodes[name].at(s.rv)
	_, confirmed := map[string]string{}, false
	if node != nil {
		_, confirmed = node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	}
	delay := s.nhc.Spec.HealthyDelay
	delayed := delay != nil && delay.Duration != 0 && !confirmed
	standing := slices.ContainsFunc(crs, func(cr *CR) bool { return !cr.Deleting })
	switch {
	case node == nil:
		awaited := func(cr *CR) bool { return cr.Permanent == "True" && cr.Succeeded != "True" }
		if slices.ContainsFunc(crs, func(cr *CR) bool { return !cr.Deleting && !awaited(cr) }) {
			report("17.2", name, "the Node is gone and its CR stays")
		}
	case standing && !delayed && !Matches(s.nhc.Spec.UnhealthyConditions, node):
		report("16.1", name, "the node is healthy and its CR stays")
	}
}
