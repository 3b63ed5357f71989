// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestObservations: what the history hears of a node.
func TestObservations(t *testing.T) {
	t.Parallel()
	failed := testCR("n", "1", func(cr *object.CR) { cr.Succeeded = corev1.ConditionFalse })
	down := func(uid string, seconds int) *object.CR {
		return testCR("n", uid, func(cr *object.CR) {
			cr.Fenced, cr.FencedSince = true, epoch.Add(time.Duration(seconds)*time.Second)
		})
	}
	born := node(func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Hour)) })
	ready := v1alpha1.Trigger{Type: "Ready", Status: "Unknown", Reason: "NodeStatusUnknown"}
	because := func(p *part) { p.plan.Node.Verdict.Reason = "NodeStatusUnknown" }
	came := epoch.Add(-time.Minute)
	shows := func(cr *object.CR, changes ...func(*history.CR)) history.CR {
		shown := history.CR{Remediation: entryOf(cr)}
		for _, change := range changes {
			change(&shown)
		}
		return shown
	}
	fencedAt := func(seconds int) func(*history.CR) {
		return func(cr *history.CR) { cr.Fenced = epoch.Add(time.Duration(seconds) * time.Second) }
	}
	went := func(cr *history.CR) { cr.Gone = true }
	replaced := testCR("n", "5", crSucceeded, func(cr *object.CR) { cr.PermanentNodeDeletionExpected = "True" })
	tests := map[string]struct {
		part part
		want history.Observation
	}{
		"unhealthy": {
			part: sick("n", born, because),
			want: history.Observation{Node: "n", Created: epoch.Add(-time.Hour), State: health.Unhealthy, Selected: true, Trigger: ready, Since: came},
		},
		"a candidate that nothing is created for": {
			part: sick("n", born, because, func(p *part) { p.plan.Candidate = true }),
			want: history.Observation{Node: "n", Created: epoch.Add(-time.Hour), State: health.Unhealthy, Selected: true, Trigger: ready, Since: came},
		},
		"soon-unhealthy": {
			part: soon("n", born, because),
			want: history.Observation{Node: "n", Created: epoch.Add(-time.Hour), State: health.SoonUnhealthy, Selected: true, Trigger: ready, Since: came},
		},
		"healthy": {part: well("n", born), want: history.Observation{Node: "n", Created: epoch.Add(-time.Hour), Selected: true}},
		"healthy for a while": {
			part: well("n", func(p *part) { p.plan.Node.HealthySince = epoch }),
			want: history.Observation{Node: "n", HealthySince: epoch, Selected: true},
		},
		"no longer selected": {
			part: sick("n", unselected, because),
			want: history.Observation{Node: "n", State: health.Unhealthy, Trigger: ready, Since: came},
		},
		"deleted": {part: sick("n", nodeDeleted), want: history.Observation{Node: "n", NodeDeleted: true, Selected: true}},
		"with CRs, and one has failed": {
			part: well("n", own(failed, testCR("n", "2", crSucceeded), testCR("n", "3"))),
			want: history.Observation{Node: "n", Selected: true, CRs: []history.CR{
				shows(failed, func(cr *history.CR) { cr.Failed = true }), shows(testCR("n", "2")), shows(testCR("n", "3")),
			}},
		},
		"with CRs that say it is down": {
			part: well("n", own(testCR("n", "1"), down("2", 20), down("3", 10))),
			want: history.Observation{Node: "n", Selected: true, CRs: []history.CR{
				shows(testCR("n", "1")), shows(testCR("n", "2"), fencedAt(20)), shows(testCR("n", "3"), fencedAt(10)),
			}},
		},
		"with a CR that says so by a clock that is ahead": {
			part: well("n", own(down("1", 61))),
			want: history.Observation{Node: "n", Selected: true, CRs: []history.CR{shows(testCR("n", "1"), fencedAt(60))}},
		},
		"23b.1 its CR said so before it went": {
			part: well("n", gone(down("1", 10))),
			want: history.Observation{Node: "n", Selected: true, CRs: []history.CR{shows(testCR("n", "1"), went, fencedAt(10))}},
		},
		"of another node": {
			part: well("n", gone(testCR("m", "1"))),
			want: history.Observation{Node: "n", Selected: true},
		},
		"23b.1 found to be gone: its last state is still to come": {
			part: well("n", own(down("1", 10)), foundGone(down("1", 10))),
			want: history.Observation{Node: "n", Selected: true, CRs: []history.CR{shows(testCR("n", "1"), fencedAt(10))}},
		},
		"23b.2 deleted, and its CR has replaced it": {
			part: sick("n", nodeDeleted, own(replaced), deleted(replaced)),
			want: history.Observation{Node: "n", NodeDeleted: true, Selected: true, CRs: []history.CR{
				shows(replaced, went, func(cr *history.CR) { cr.Replaced, cr.Requested = true, true }),
			}},
		},
		"23b.4 deleted by the controller": {
			part: well("n", own(testCR("n", "1"), testCR("n", "2")), deleted(testCR("n", "1")), gone(testCR("n", "3"))),
			want: history.Observation{Node: "n", Selected: true, CRs: []history.CR{
				shows(testCR("n", "1"), func(cr *history.CR) { cr.Requested = true }), shows(testCR("n", "2")), shows(testCR("n", "3"), went),
			}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.now = epoch.Add(time.Minute)
			for _, cr := range tc.part.outcome.Deleted {
				s.state.deletionRequested[cr.UID] = true
			}
			r := s.result(tc.part)
			require.Equal(t, []history.Observation{tc.want}, slices.Collect[history.Observation](r.Observations))
		})
	}
}
