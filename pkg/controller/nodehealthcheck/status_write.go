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

// writeStatus replaces the whole status, unless it is unchanged (spec 18.2). The write is bound to the
// resourceVersion that it was computed from. It returns the written resourceVersion, empty if nothing was
// written.
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
	c.Writes.Wrote(nhc.Name, nhcResource, written.ResourceVersion, c.Clock.Now())
	return written.ResourceVersion, nil
}

// minWriteInterval is the time between two writes of a status while there is more to do: a status
// with thousands of nodes takes the API server a second.
const minWriteInterval = 2 * time.Second

// deferStatus returns until when the report of a sync may wait, and zero if it may not. The next
// sync replaces a waiting report, and reports everything, at that time at the latest.
func (r *syncResult) deferStatus(lastWrite time.Time) time.Time {
	until := lastWrite.Add(minWriteInterval)
	if lastWrite.IsZero() || !r.busy() || r.mustWriteNow() || !r.now.Before(until) || lastWrite.After(r.now) {
		return time.Time{}
	}
	return until
}

// busy reports whether this sync has done something that will soon cause another sync.
func (r *syncResult) busy() bool {
	return slices.ContainsFunc(r.results, func(result remediation.NodeResult) bool { return len(result.Plan.Actions) > 0 })
}

// mustWriteNow reports whether only status remembers something that the next sync needs, or
// whether the state of the whole NodeHealthCheck has changed.
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
