// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// atOnce is the number of nodes that a sync acts on side by side.
const atOnce = 32

// heldInTime is how long creations may be held back: the controller gives up a request after ten seconds.
const heldInTime = 8 * time.Second

// TestOutdatedPlans has more nodes fail than a sync acts on at a time. While the first
// of them get their CRs, something happens that forbids any more: those that have not
// begun do not begin (spec 5.1, 8.1, 10.1, P2). On a busy machine it may take too long until
// the controller knows of it: then it is tried again with other nodes.
func TestOutdatedPlans(t *testing.T) {
	t.Parallel()
	pause := func(s *scenario) {
		s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
			map[string]any{"spec": map[string]any{"pauseRequests": []string{"wait"}}})
	}
	tests := map[string]struct {
		// happens returns when the controller knows of it.
		happens func(s, other *scenario)
		reason  v1alpha1.DecisionReason
	}{
		"10.1 somebody pauses": {
			happens: func(s, other *scenario) {
				pause(s)
				pause(other) // Events of one kind come in order.
				other.eventually("paused", func() bool { return other.status().Phase == v1alpha1.PhasePaused })
			},
			reason: v1alpha1.DecidedPaused,
		},
		"8.1 the gate closes": {
			happens: func(s, _ *scenario) {
				s.fail("healthy-0")
				// A batch that waits for answers ends, and the next sync sees it.
				s.eventually("the gate is closed", func() bool {
					entry := s.entry("healthy-0")
					return entry != nil && entry.Decision != nil && entry.Decision.Reason == v1alpha1.DecidedGateClosed
				})
			},
			reason: v1alpha1.DecidedGateClosed,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const attempts = 5
			for range attempts {
				if outdatePlans(t, tc.happens, tc.reason) {
					return
				}
			}
			t.Fatalf("creations were held back for more than %s each time", heldInTime)
		})
	}
}

// outdatePlans is one attempt, which reports whether it was fast enough.
func outdatePlans(t *testing.T, happens func(s, other *scenario), reason v1alpha1.DecisionReason) bool {
	t.Helper()
	const failing, healthy = atOnce + 8, 10
	c := sharedCluster(t)
	s, other := newScenario(t, c), newEmptyScenario(t, c, t.Name()+" other", powerCycle)
	other.createTemplate(usualTemplate())
	other.createNodes("a")
	other.createNHC()
	for i := range failing {
		s.createNodes(fmt.Sprintf("failing-%d", i))
		s.fail(fmt.Sprintf("failing-%d", i))
	}
	for i := range healthy {
		s.createNodes(fmt.Sprintf("healthy-%d", i))
	}
	other.eventuallyCounts(1, 1)
	creations := s.holdCreations()
	// It is not synced before the creations are released.
	nhc := s.spec(func(spec *v1alpha1.NodeHealthCheckSpec) { spec.MinHealthy = new(intstr.FromInt32(healthy)) })
	_, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), nhc, metav1.CreateOptions{})
	require.NoError(t, err)
	creations.await(t)
	held := time.Now()
	for range atOnce - 1 {
		creations.await(t)
	}
	happens(s, other)
	creations.release()
	if took := time.Since(held); took > heldInTime {
		t.Logf("not in time: it took %s", took)
		return false
	}

	s.eventually("the decision about those that did not begin", func() bool {
		waiting := 0
		for _, entry := range s.status().UnhealthyNodes {
			if entry.Decision != nil && entry.Decision.Reason == reason {
				waiting++
			}
		}
		return waiting >= failing-atOnce
	})
	s.eventually("those that had begun", func() bool { // The decision may be there before their answers.
		crs, err := s.crClient().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.LessOrEqual(t, len(crs.Items), atOnce, "none but those that had begun")
		return len(crs.Items) == atOnce
	})
	require.Len(t, s.creationAttempts(), atOnce)
	s.eventually("no lease is left of those that did not begin", func() bool {
		leases := 0
		for i := range failing {
			if s.nodeLease(fmt.Sprintf("failing-%d", i)) != nil {
				leases++
			}
		}
		return leases == atOnce
	})
	return true
}
