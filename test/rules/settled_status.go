// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// checkCounts compares the numbers of status with what exists (spec 7.8, 18).
func (s *settledCheck) checkCounts() {
	status := &s.nhc.Status
	s.check("18.5", "", status.ObservedGeneration != s.nhc.Generation, "observedGeneration is %d of %d", status.ObservedGeneration, s.nhc.Generation)
	remediating := 0
	for name := range s.own {
		if len(s.own[name]) > 0 {
			remediating++
		}
	}
	for _, count := range []struct {
		rule, name string
		value      *int32
		want       int
	}{
		{"7.8", "observedNodes", status.ObservedNodes, s.observedCount},
		{"7.8", "healthyNodes", status.HealthyNodes, s.healthyCount},
		{"18.6", "unhealthyNodeCount", status.UnhealthyNodeCount, len(s.unhealthy)},
		{"7.3", "soonUnhealthyNodes", status.SoonUnhealthyNodes, len(s.soon)},
		{"18.3", "remediatingNodes", status.RemediatingNodes, remediating},
		{"18.5", "remediationsAllowed", status.RemediationsAllowed, max(0, limit(&s.nhc.Spec, s.observedCount)-s.counts.NotHealthyMin)},
	} {
		s.check(count.rule, "", count.value == nil || int(*count.value) != count.want, "%s is %s, not %d", count.name, valueOf(count.value), count.want)
	}
}

func valueOf(n *int32) string {
	if n == nil {
		return "absent"
	}
	return fmt.Sprint(*n)
}

// checkPhase judges phase and reason (spec 18.1).
func (s *settledCheck) checkPhase() {
	status := &s.nhc.Status
	remediating := 0
	for i := range status.UnhealthyNodes {
		if len(status.UnhealthyNodes[i].Remediations) > 0 {
			remediating++
		}
	}
	phase, reason := v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
	disabled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDisabled)
	s.check("6.2", "", disabled == nil, "there is no condition Disabled")
	switch {
	case disabled == nil:
		return
	case disabled.Status == "True":
		phase, reason = v1alpha1.PhaseDisabled, "NHC is disabled: "+disabled.Reason+": "+disabled.Message
	case len(s.nhc.Spec.PauseRequests) > 0:
		phase, reason = v1alpha1.PhasePaused, "NHC is paused: "+strings.Join(s.nhc.Spec.PauseRequests, ",")
	case remediating > 0:
		phase, reason = v1alpha1.PhaseRemediating, fmt.Sprintf("NHC is remediating %d nodes", remediating)
	}
	s.check("18.1", "", status.Phase != phase || status.Reason != reason, "phase is %s, %q, not %s, %q", status.Phase, status.Reason, phase, reason)
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	s.check("18.7", "", (stalled != nil) != (disabled.Status == "True" || s.observedCount == 0), "condition Stalled is %v", stalled)
	s.checkDisabled(disabled)
}

// checkEntries compares unhealthyNodes with what exists (spec 18.3, 18.4).
func (s *settledCheck) checkEntries() {
	want := s.unhealthy.Clone()
	for node := range s.own {
		want.Insert(node)
	}
	listed := sets.New[string]()
	for i := range s.nhc.Status.UnhealthyNodes {
		entry := &s.nhc.Status.UnhealthyNodes[i]
		listed.Insert(entry.Name)
		s.checkRemediations(entry)
		if !s.unselected(entry.Name) {
			s.check("16.2", entry.Name, s.healthy.Has(entry.Name) != (entry.ConditionsHealthyTimestamp != nil), "conditionsHealthyTimestamp is %v", entry.ConditionsHealthyTimestamp)
		}
	}
	silent := s.unreported.Difference(listed)
	s.check("7.6", first(silent), len(silent) > 0, "status does not list %s, which never reported", names(silent))
	missing := want.Difference(listed)
	s.check("18.4", first(missing), len(missing) > 0, "status does not list %s", names(missing))
	// An entry of a node that is soon unhealthy may stay (spec 7.5).
	wrong := listed.Difference(want).Difference(s.soon)
	s.check("18.4", first(wrong), len(wrong) > 0, "status lists %s", names(wrong))
}

// first returns the first name of a set, or "".
func first(set sets.Set[string]) string {
	if len(set) == 0 {
		return ""
	}
	return sets.List(set)[0]
}

// checkRemediations compares the remediations of an entry with the CRs of the node, field
// by field (spec 18.3).
func (s *settledCheck) checkRemediations(entry *v1alpha1.UnhealthyNode) {
	exist, stated := sets.New[string](), sets.New[string]()
	crs := map[string]*CR{}
	for _, cr := range s.own[entry.Name] {
		exist.Insert(string(cr.UID))
		crs[string(cr.UID)] = cr
	}
	last, steps := -1, stepsOf(s.nhc)
	for i := range entry.Remediations {
		remediation := &entry.Remediations[i]
		uid := string(remediation.Resource.UID)
		stated.Insert(uid)
		cr := crs[uid]
		if cr == nil {
			continue
		}
		resource := corev1.ObjectReference{APIVersion: cr.APIVersion, Kind: cr.Kind, Namespace: cr.Namespace, Name: cr.Name, UID: cr.UID}
		s.check("18.3", entry.Name, remediation.Resource != resource, "status has the resource %v, it is %v", remediation.Resource, resource)
		s.check("18.3", entry.Name, !remediation.Started.Time.Equal(cr.Created), "status says that %s was started at %s", cr, remediation.Started.UTC().Format(time.TimeOnly))
		s.check("18.3", entry.Name, remediation.TemplateName != cr.Template, "status says that %s is from template %q, it is from %q", cr, remediation.TemplateName, cr.Template)
		s.check("18.3", entry.Name, cr.Marked && !cr.Deleting && remediation.TimedOut == nil, "status does not say that %s is over", cr)
		if step := stepOf(steps, cr); step >= 0 {
			s.check("18.3", entry.Name, step < last, "status has %s after a later step", cr)
			last = step
		}
	}
	s.check("18.3", entry.Name, !exist.Equal(stated), "status has the CRs %s, there are %s", names(stated), names(exist))
}

// checkConditions judges the conditions that tell what holds for the NodeHealthCheck (spec
// 18.5, 17.4).
func (s *settledCheck) checkConditions() {
	status := &s.nhc.Status
	for _, condition := range status.Conditions {
		s.check("18.5", "", condition.ObservedGeneration != s.nhc.Generation, "condition %s has observedGeneration %d of %d", condition.Type, condition.ObservedGeneration, s.nhc.Generation)
	}
	leftover := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionLeftoverRemediations)
	s.check("17.4", "", (leftover != nil) != (len(s.leftovers) > 0), "condition LeftoverRemediations is %v, there are %d", leftover, len(s.leftovers))
	allowed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRemediationAllowed)
	s.check("18.5", "", allowed == nil, "there is no condition RemediationAllowed")
	if allowed == nil || slices.Contains([]string{string(v1alpha1.DecidedInvalidSpec), string(v1alpha1.DecidedClockUntrusted)}, allowed.Reason) {
		return // It depends on what is not followed.
	}
	reason := v1alpha1.ReasonGateOpen
	switch {
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDisabled):
		reason = string(v1alpha1.DecidedDisabled)
	case len(s.nhc.Spec.PauseRequests) > 0:
		reason = string(v1alpha1.DecidedPaused)
	case s.observedCount == 0:
		reason = v1alpha1.ReasonNoNodes
	case !s.gate:
		reason = string(v1alpha1.DecidedGateClosed)
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStormActive):
		reason = string(v1alpha1.DecidedStormActive)
	}
	s.check("18.5", "", allowed.Reason != reason || (allowed.Status == "True") != (reason == v1alpha1.ReasonGateOpen) || (reason == v1alpha1.ReasonNoNodes && allowed.Message != "the selector selects no node"), "RemediationAllowed is %s, %s, not %s", allowed.Status, allowed.Reason, reason)
}
