// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// writeStatus replaces the status as a whole, unless it is the one that nhc has (spec 18.2),
// bound to the resourceVersion from which it was computed. It returns the one that was written, empty if
// nothing was.
func (c *Controller) writeStatus(ctx context.Context, nhc *v1alpha1.NodeHealthCheck, status *v1alpha1.NodeHealthCheckStatus) (string, error) {
	if status == &nhc.Status {
		return "", nil
	}
	updated := *nhc
	updated.Status = *status
	written, err := c.client.NodeHealthChecks().UpdateStatus(ctx, &updated, metav1.UpdateOptions{FieldManager: Name})
	if err != nil {
		return "", fmt.Errorf("updating status: %w", err)
	}
	c.writes.Wrote(nhc.Name, nhcResource, written.ResourceVersion, c.clock.Now())
	return written.ResourceVersion, nil
}

// minWriteInterval is the time between two writes of a status while there is more to do: that of
// thousands of nodes takes the API server a second.
const minWriteInterval = 2 * time.Second

// deferStatus returns until when the report of a sync may wait, and zero if it may not. A
// report that waits is replaced by that of the next sync, which reports all of it, at that time
// at the latest.
func (r *syncResult) deferStatus(lastWrite time.Time) time.Time {
	until := lastWrite.Add(minWriteInterval)
	if lastWrite.IsZero() || !r.busy() || r.mustWriteNow() || !r.now.Before(until) || lastWrite.After(r.now) {
		return time.Time{}
	}
	return until
}

// busy reports whether something was done in this sync, so that its consequences make
// for another one in a moment.
func (r *syncResult) busy() bool {
	return slices.ContainsFunc(r.results, func(result remediation.NodeResult) bool { return len(result.Plan.Actions) > 0 })
}

// mustWriteNow reports whether the sync has found anything that decides what happens next and
// that only status remembers, or that changes the state of the whole NodeHealthCheck.
func (r *syncResult) mustWriteNow() bool {
	before, after := &r.nhc.Status, r.Status
	ended := slices.ContainsFunc(r.results, func(result remediation.NodeResult) bool { return len(result.Outcome.TimedOut) > 0 })
	return ended || r.nhc.Spec.HealthyDelay != nil ||
		before.ObservedGeneration != after.ObservedGeneration || before.Phase != after.Phase ||
		!equality.Semantic.DeepEqual(statusesOf(before), statusesOf(after)) ||
		!equality.Semantic.DeepEqual(before.StormRecoveryActive, after.StormRecoveryActive)
}

// statusesOf returns the statuses and reasons of all conditions.
func statusesOf(status *v1alpha1.NodeHealthCheckStatus) map[string]string {
	statuses := make(map[string]string, len(status.Conditions))
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		statuses[condition.Type] = string(condition.Status) + " " + condition.Reason
	}
	return statuses
}
