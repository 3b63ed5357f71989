// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestObservations: what the history hears of a node.
func TestObservations(t *testing.T) {
	t.Parallel()
	now := epoch.Add(time.Minute)
	failed := testCR("n", "1", func(cr *remediation.CR) { cr.Succeeded = corev1.ConditionFalse })
	down := func(uid string, seconds int) *remediation.CR {
		return testCR("n", uid, func(cr *remediation.CR) {
			cr.Fenced, cr.FencedSince = true, epoch.Add(time.Duration(seconds)*time.Second)
		})
	}
	born := node(func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Hour)) })
	ready := &v1alpha1.Trigger{Type: "Ready", Status: "Unknown", Reason: "NodeStatusUnknown"}
	because := func(p *part) { p.plan.Node.Verdict.Reason = "NodeStatusUnknown" }
	none := sets.New[types.UID]()
	tests := map[string]struct {
		part part
		want history.Observation
	}{
		"unhealthy": {
			part: sick("n", born, because),
			want: history.Observation{Node: "n", Created: epoch.Add(-time.Hour), State: health.Unhealthy, Selected: true, Trigger: ready, Deadline: epoch, Failed: none},
		},
		"soon-unhealthy": {
			part: soon("n", born, because),
			want: history.Observation{Node: "n", Created: epoch.Add(-time.Hour), State: health.SoonUnhealthy, Selected: true, Trigger: ready, Deadline: epoch, Failed: none},
		},
		"healthy": {part: well("n", born), want: history.Observation{Node: "n", Created: epoch.Add(-time.Hour), Selected: true, Failed: none}},
		"no longer selected": {
			part: sick("n", unselected, because),
			want: history.Observation{Node: "n", State: health.Unhealthy, Trigger: ready, Deadline: epoch, Failed: none},
		},
		"deleted": {part: sick("n", nodeDeleted), want: history.Observation{Node: "n", NodeDeleted: true, Selected: true, Failed: none}},
		"with CRs, one of which has failed": {
			part: well("n", own(failed, testCR("n", "2", crSucceeded), testCR("n", "3"))),
			want: history.Observation{
				Node: "n", Selected: true, Failed: sets.New[types.UID]("1"),
				Remediations: []v1alpha1.Remediation{entryOf(failed), entryOf(testCR("n", "2")), entryOf(testCR("n", "3"))},
			},
		},
		"with CRs that say it is down, the first one counts": {
			part: well("n", own(testCR("n", "1"), down("2", 20), down("3", 10), down("4", 30))),
			want: history.Observation{
				Node: "n", Selected: true, Failed: none, Fenced: epoch.Add(10 * time.Second),
				Remediations: []v1alpha1.Remediation{entryOf(testCR("n", "1")), entryOf(testCR("n", "2")), entryOf(testCR("n", "3")), entryOf(testCR("n", "4"))},
			},
		},
		"with a CR that says so by a clock that is ahead": {
			part: well("n", own(down("1", 61))),
			want: history.Observation{Node: "n", Selected: true, Failed: none, Fenced: now, Remediations: []v1alpha1.Remediation{entryOf(testCR("n", "1"))}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStory(t).round(tc.part)
			require.Equal(t, []history.Observation{tc.want}, r.world.observations(r.plans, r.outcomes, now))
		})
	}
}
