// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// newStatus computes the whole status from the observations and actions (spec 18). It returns
// the old status if nothing has changed. It lists as many entries as fit. Of the history, only
// the end of an episode is worth a write by itself.
func (r *Report) newStatus() *v1alpha1.NodeHealthCheckStatus {
	nhc, old, context := r.in.Check, &r.in.Check.Status, &r.in.Policy.Context
	remediating := 0
	for i := range r.Entries {
		if len(r.Entries[i].Remediations) > 0 {
			remediating++
		}
	}
	status := &v1alpha1.NodeHealthCheckStatus{
		ObservedGeneration:  nhc.Generation,
		ObservedNodes:       new(int32(r.in.Summary.Observed)),
		HealthyNodes:        new(int32(r.in.Summary.Healthy)),
		UnhealthyNodeCount:  new(int32(r.in.Summary.Unhealthy)),
		RemediationsAllowed: new(int32(max(0, context.Gate.Healthy-context.Gate.Required))),
		SoonUnhealthyNodes:  new(int32(r.in.Summary.SoonUnhealthy)),
		RemediatingNodes:    new(int32(remediating)),
		UnhealthyNodes:      LimitEntries(r.Entries, MaxEntries),
		Conditions:          r.newConditions(),
		RemediationHistory:  old.RemediationHistory,
		LastUpdateTime:      old.LastUpdateTime,
	}
	status.StormRecoveryActive, status.StormRecoveryStartTime = stormFields(nhc, context.Storm)
	status.Phase, status.Reason = phaseOf(nhc, status.Conditions, remediating)
	status.Reason = shorten(status.Reason)
	if unlisted := len(r.Entries) - len(status.UnhealthyNodes); unlisted > 0 {
		status.Reason += fmt.Sprintf(", %d more not listed", unlisted)
	}
	if len(r.Ended) == 0 && sameStatus(old, status) {
		return old
	}
	status.RemediationHistory = r.Ledger.List(nhc.Spec.RemediationHistoryLimit)
	if sameStatus(old, status) {
		return old
	}
	status.LastUpdateTime = new(seconds(r.in.Now))
	return status
}

// seconds returns an instant as the API stores it.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// phaseOf returns the phase and its reason (spec 18.1).
func phaseOf(nhc *v1alpha1.NodeHealthCheck, conditions []metav1.Condition, remediating int) (v1alpha1.Phase, string) {
	disabled := meta.FindStatusCondition(conditions, v1alpha1.ConditionDisabled)
	switch {
	case disabled != nil && disabled.Status == metav1.ConditionTrue:
		return v1alpha1.PhaseDisabled, fmt.Sprintf("NHC is disabled: %s: %s", disabled.Reason, disabled.Message)
	case len(nhc.Spec.PauseRequests) > 0:
		return v1alpha1.PhasePaused, "NHC is paused: " + strings.Join(nhc.Spec.PauseRequests, ",")
	case remediating > 0:
		return v1alpha1.PhaseRemediating, fmt.Sprintf("NHC is remediating %d nodes", remediating)
	default:
		return v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
	}
}
