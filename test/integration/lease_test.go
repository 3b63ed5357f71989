// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

const nodeLeaseNamespace = "medik8s-leases"

func (s *scenario) nodeLeases() coordinationclient.LeaseInterface {
	return s.kube.CoordinationV1().Leases(nodeLeaseNamespace)
}

func (s *scenario) nodeLeaseName(name string) string { return "node-" + s.node(name) }

// nodeLease returns the lease of a node, nil if there is none.
func (s *scenario) nodeLease(name string) *coordinationv1.Lease {
	s.t.Helper()
	lease, err := s.nodeLeases().Get(s.t.Context(), s.nodeLeaseName(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return lease
}

func (s *scenario) eventuallyNoNodeLease(name string) {
	s.t.Helper()
	s.eventually("no lease of node "+name, func() bool { return s.nodeLease(name) == nil })
}

// eventuallyNodeLease waits until the lease of a node was written after another one.
func (s *scenario) eventuallyNodeLease(name string, after *coordinationv1.Lease) *coordinationv1.Lease {
	s.t.Helper()
	var lease *coordinationv1.Lease
	s.eventually("a new write of the lease of node "+name, func() bool {
		lease = s.nodeLease(name)
		return lease != nil && lease.ResourceVersion != after.ResourceVersion
	})
	return lease
}

// patchNodeLease changes the lease of a node, as somebody else, and returns it.
func (s *scenario) patchNodeLease(name string, patch map[string]any) *coordinationv1.Lease {
	s.t.Helper()
	encoded, err := json.Marshal(patch)
	require.NoError(s.t, err)
	lease, err := s.nodeLeases().Patch(s.t.Context(), s.nodeLeaseName(name), types.MergePatchType, encoded, metav1.PatchOptions{})
	require.NoError(s.t, err)
	return lease
}

func (s *scenario) patchNodeLeaseSpec(name string, spec map[string]any) *coordinationv1.Lease {
	s.t.Helper()
	return s.patchNodeLease(name, map[string]any{"spec": spec})
}

func microTime(t time.Time) metav1.MicroTime { return metav1.NewMicroTime(t) }

// createNodeLease creates a lease that somebody else has held for a minute, and holds
// for an hour; change changes it. It has another owner than the Node.
func (s *scenario) createNodeLease(name string, change ...func(*coordinationv1.LeaseSpec)) *coordinationv1.Lease {
	s.t.Helper()
	namespace, err := s.kube.CoreV1().Namespaces().Get(s.t.Context(), s.name, metav1.GetOptions{})
	require.NoError(s.t, err)
	since := microTime(time.Now().Add(-time.Minute))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            s.nodeLeaseName(name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("node-maintenance"), LeaseDurationSeconds: new(int32(3660)), AcquireTime: &since, RenewTime: &since, LeaseTransitions: new(int32(3)),
		},
	}
	for _, c := range change {
		c(&lease.Spec)
	}
	lease, err = s.nodeLeases().Create(s.t.Context(), lease, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		_ = s.nodeLeases().Delete(context.WithoutCancel(s.t.Context()), lease.Name, metav1.DeleteOptions{})
	})
	return lease
}

// leaseRequests returns the controller's requests of a verb for the lease of a node,
// with whatever result.
func (s *scenario) leaseRequests(verb, name string) []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == verb && r.Resource == "leases" && r.Namespace == nodeLeaseNamespace && r.Name == s.nodeLeaseName(name)
	})
}

// requireLease requires the content of a lease that this NodeHealthCheck holds.
func (s *scenario) requireLease(lease *coordinationv1.Lease, name string, duration time.Duration, transitions int32) {
	s.t.Helper()
	node, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), s.node(name), metav1.GetOptions{})
	require.NoError(s.t, err)
	require.Equal(s.t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}, lease.OwnerReferences, "14.1")
	require.Equal(s.t, coordinationv1.LeaseSpec{
		HolderIdentity:       new("NodeHealthCheck-" + s.name),
		AcquireTime:          lease.Spec.AcquireTime,
		RenewTime:            lease.Spec.RenewTime,
		LeaseDurationSeconds: new(int32(duration / time.Second)),
		LeaseTransitions:     &transitions,
	}, lease.Spec, "14.1")
	for _, at := range []*metav1.MicroTime{lease.Spec.AcquireTime, lease.Spec.RenewTime} {
		require.NotNil(s.t, at)
		require.Equal(s.t, at.Truncate(time.Second).UTC(), at.UTC(), "13.8: whole seconds")
	}
}

func (s *scenario) leaseTaken(name string) string {
	return "Skipped remediation of node: " + s.node(name) + ", because node lease is already taken"
}

// requireRefusedByLease requires that a node has no CR and that this was told of once.
func (s *scenario) requireRefusedByLease(name string) {
	s.t.Helper()
	s.eventuallyEvent("RemediationSkipped", s.leaseTaken(name))
	s.eventually("the event about the node", func() bool { return len(s.eventsAbout("Node", s.node(name), "RemediationSkipped")) > 0 })
	s.eventually("node "+name+" is listed", func() bool { return s.entry(name) != nil })
	s.catchUp()
	require.Empty(s.t, s.entry(name).Remediations, "14.3")
	require.Nil(s.t, s.cr(name), "14.3")
	require.Empty(s.t, s.crRequests("create", name), "14.2")
	require.Equal(s.t, []string{s.leaseTaken(name)}, s.events("RemediationSkipped"), "19.1: once")
	require.Equal(s.t, []string{s.leaseTaken(name)}, s.eventsAbout("Node", s.node(name), "RemediationSkipped"), "19.1: once")
}

// TestLease: what a remediation needs a lease for, from its beginning to its end (spec
// 14.1, 14.2, 14.9, P3).
func TestLease(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a")
	s.createNHC()
	require.Nil(t, s.nodeLease("a"))
	s.fail("a")
	s.eventuallyCR("a")
	lease := s.nodeLease("a")
	require.NotNil(t, lease, "14.2")
	s.requireLease(lease, "a", 660*time.Second, 0)
	require.Equal(t, lease.Spec.AcquireTime, lease.Spec.RenewTime, "14.1")
	require.False(t, s.leaseRequests("create", "a")[0].Time.After(s.crRequests("create", "a")[0].Time), "14.2: first the lease")
	s.report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
	s.catchUp()
	require.Equal(t, lease.ResourceVersion, s.nodeLease("a").ResourceVersion, "P3: not before its time")
	s.heal("a")
	s.eventuallyNoNodeLease("a")
	s.eventuallyCounts(1, 1)
	require.Nil(t, s.cr("a"), "14.9: when the node has no own CR any more")
	require.Len(t, s.leaseRequests("create", "a"), 1)
	require.Empty(t, s.leaseRequests("update", "a"), "P3")
	require.Empty(t, s.leaseRequests("patch", "a"), "P3")
	require.NotEmpty(t, s.leaseRequests("delete", "a"))

	// Another episode has another lease.
	s.fail("a")
	s.eventuallyCR("a")
	again := s.nodeLease("a")
	s.requireLease(again, "a", 660*time.Second, 0)
	require.NotEqual(t, lease.UID, again.UID)
}

// TestLeaseWithFinalizer: the lease lasts as long as the CR (spec 14.9, 16.2).
func TestLeaseWithFinalizer(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	l.createNodes("a")
	l.createNHC(l.escalation(2 * time.Minute))
	l.fail("a")
	l.eventuallyStep("a", 0)
	lease := l.nodeLease("a")
	l.setFinalizers("a", rungFinalizer)
	l.heal("a")
	l.eventuallyDeleting("a")
	l.eventually("conditionsHealthyTimestamp", func() bool { return l.entry("a").ConditionsHealthyTimestamp != nil })
	l.catchUp()
	require.Equal(t, lease.ResourceVersion, l.nodeLease("a").ResourceVersion, "14.5: T is that of its step, also while its CR goes away")
	old := l.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now().Add(-90 * time.Second))})
	renewed := l.eventuallyNodeLease("a", old)
	l.requireLease(renewed, "a", 3*time.Minute, 0)
	l.setFinalizers("a")
	l.eventuallyNoNodeLease("a")
}

// TestLeaseLeftOver: leases of the time before (spec 14.2, 14.4).
func TestLeaseLeftOver(t *testing.T) {
	t.Parallel()
	longAgo := microTime(time.Now().Add(-2 * time.Hour))
	tests := map[string]struct {
		change      func(s *scenario, spec *coordinationv1.LeaseSpec)
		transitions int32
	}{
		"14.4-expired": {
			change:      func(_ *scenario, spec *coordinationv1.LeaseSpec) { spec.RenewTime = &longAgo },
			transitions: 4,
		},
		"14.4-renewed-in-the-future": {
			change: func(_ *scenario, spec *coordinationv1.LeaseSpec) {
				spec.RenewTime = new(microTime(time.Now().Add(time.Hour)))
			},
			transitions: 4,
		},
		"14.4-never-renewed": {
			change:      func(_ *scenario, spec *coordinationv1.LeaseSpec) { spec.RenewTime = nil },
			transitions: 4,
		},
		"14.4-without-duration": {
			change:      func(_ *scenario, spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = nil },
			transitions: 4,
		},
		"14.4-with-nothing": {
			change:      func(_ *scenario, spec *coordinationv1.LeaseSpec) { *spec = coordinationv1.LeaseSpec{} },
			transitions: 1,
		},
		"14.4-expired-without-holder": {
			change: func(_ *scenario, spec *coordinationv1.LeaseSpec) {
				spec.HolderIdentity, spec.RenewTime = nil, &longAgo
			},
			transitions: 4,
		},
		"14.2-own": {
			change: func(s *scenario, spec *coordinationv1.LeaseSpec) {
				spec.HolderIdentity, spec.AcquireTime = new("NodeHealthCheck-"+s.name), &longAgo
			},
			transitions: 3,
		},
		"14.2-own-and-expired": {
			change: func(s *scenario, spec *coordinationv1.LeaseSpec) {
				spec.HolderIdentity, spec.AcquireTime, spec.RenewTime = new("NodeHealthCheck-"+s.name), &longAgo, &longAgo
			},
			transitions: 3,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a")
			s.fail("a")
			old := s.createNodeLease("a", func(spec *coordinationv1.LeaseSpec) { tc.change(s, spec) })
			s.createNHC()
			cr := s.eventuallyCR("a")
			lease := s.nodeLease("a")
			require.Equal(t, old.UID, lease.UID)
			s.requireLease(lease, "a", 660*time.Second, tc.transitions)
			require.Equal(t, lease.Spec.AcquireTime, lease.Spec.RenewTime, "14.2, 14.4: it starts anew")
			require.False(t, cr.GetCreationTimestamp().Time.Before(lease.Spec.AcquireTime.Time), "14.2")
			require.False(t, lease.Spec.AcquireTime.Time.Before(old.CreationTimestamp.Time), "14.2, 14.4: it starts anew")
			require.Empty(t, s.events("RemediationSkipped"))
			s.heal("a")
			s.eventuallyNoNodeLease("a")
		})
	}
}

// TestLeaseTaken: somebody else works on the node (spec 14.3).
func TestLeaseTaken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(spec *coordinationv1.LeaseSpec)
		end    func(s *scenario)
	}{
		"14.3-until-deleted": {
			end: func(s *scenario) {
				require.NoError(s.t, s.nodeLeases().Delete(s.t.Context(), s.nodeLeaseName("a"), metav1.DeleteOptions{}))
			},
		},
		"14.4-until-it-has-expired": {
			end: func(s *scenario) {
				s.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now().Add(-2 * time.Hour))})
			},
		},
		"14.4-until-it-is-released-in-place": {
			end: func(s *scenario) {
				s.patchNodeLeaseSpec("a", map[string]any{"holderIdentity": "", "leaseDurationSeconds": nil, "renewTime": nil, "acquireTime": nil})
			},
		},
		"14.3-without-holder": {
			change: func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = nil },
			end: func(s *scenario) {
				require.NoError(s.t, s.nodeLeases().Delete(s.t.Context(), s.nodeLeaseName("a"), metav1.DeleteOptions{}))
			},
		},
		"14.3-of-another-NodeHealthCheck": {
			change: func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = new("NodeHealthCheck-other") },
			end: func(s *scenario) {
				require.NoError(s.t, s.nodeLeases().Delete(s.t.Context(), s.nodeLeaseName("a"), metav1.DeleteOptions{}))
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a")
			s.createNHC()
			var change []func(*coordinationv1.LeaseSpec)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			lease := s.createNodeLease("a", change...)
			s.fail("a")
			s.requireRefusedByLease("a")
			require.Equal(t, lease.ResourceVersion, s.nodeLease("a").ResourceVersion, "14.3")
			require.Equal(t, v1alpha1.PhaseEnabled, s.status().Phase, "18.1")
			// Its holder works on, which is nothing to tell of.
			s.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now())})
			s.requireRefusedByLease("a")
			tc.end(s)
			s.eventuallyCR("a")
			require.Equal(t, "NodeHealthCheck-"+s.name, *s.nodeLease("a").Spec.HolderIdentity)
			require.Len(t, s.eventsAbout("Node", s.node("a"), "RemediationSkipped"), 1)
		})
	}
	t.Run("14.3-until-time-is-up", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.createNodeLease("a", func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = new(int32(65)) })
		s.fail("a")
		cr := s.eventuallyCR("a")
		lease := s.nodeLease("a")
		s.requireLease(lease, "a", 660*time.Second, 4)
		require.False(t, cr.GetCreationTimestamp().Time.Before(lease.Spec.AcquireTime.Time))
		require.Equal(t, []string{s.leaseTaken("a")}, s.events("RemediationSkipped"))
	})
	t.Run("14.9-until-the-node-is-healthy", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		lease := s.createNodeLease("a")
		s.fail("a")
		s.requireRefusedByLease("a")
		s.heal("a")
		s.eventuallyListed(map[string]int{})
		s.catchUp()
		require.Equal(t, lease.ResourceVersion, s.nodeLease("a").ResourceVersion, "14.9: a lease of another holder stays untouched")
		require.Empty(t, s.crRequests("create", "a"))
	})
}

// TestLeaseRenewal: a lease is renewed when, and only when, it is time (spec 14.5, P3).
func TestLeaseRenewal(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) metav1.MicroTime { return microTime(time.Now().Add(-d).Truncate(time.Second)) }
	tests := map[string]struct {
		change func() map[string]any
		// renewed and anew are what becomes of renewTime and of acquireTime.
		renewed, anew bool
		duration      time.Duration
	}{
		"a-minute-and-a-half-old": {change: func() map[string]any { return map[string]any{"renewTime": ago(90 * time.Second)} }, renewed: true},
		"expired":                 {change: func() map[string]any { return map[string]any{"renewTime": ago(time.Hour)} }, renewed: true},
		"short":                   {change: func() map[string]any { return map[string]any{"leaseDurationSeconds": 10} }, renewed: true},
		"half-a-minute-old":       {change: func() map[string]any { return map[string]any{"renewTime": ago(30 * time.Second)} }},
		"ends-later": {
			change:   func() map[string]any { return map[string]any{"leaseDurationSeconds": 7200} },
			duration: 2 * time.Hour,
		},
		"without-renewTime":   {change: func() map[string]any { return map[string]any{"renewTime": nil} }, renewed: true, anew: true},
		"without-duration":    {change: func() map[string]any { return map[string]any{"leaseDurationSeconds": nil} }, renewed: true, anew: true},
		"without-acquireTime": {change: func() map[string]any { return map[string]any{"acquireTime": nil} }, anew: true},
	}
	for name, tc := range tests {
		t.Run("14.5-"+name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a")
			s.createNHC()
			s.fail("a")
			cr := s.eventuallyCR("a")
			change := tc.change()
			if _, changes := change["acquireTime"]; !changes {
				change["acquireTime"] = ago(5 * time.Minute)
			}
			change["leaseTransitions"] = 7
			old := s.patchNodeLeaseSpec("a", change)
			lease := old
			if tc.renewed || tc.anew {
				lease = s.eventuallyNodeLease("a", old)
			}
			s.catchUp()
			require.Equal(t, lease.ResourceVersion, s.nodeLease("a").ResourceVersion, "P3: once")
			duration, transitions := 660*time.Second, int32(7)
			if tc.duration > 0 {
				duration = tc.duration
			}
			if tc.anew {
				transitions = 8
			}
			s.requireLease(lease, "a", duration, transitions)
			if tc.anew {
				require.True(t, old.Spec.AcquireTime == nil || lease.Spec.AcquireTime.After(old.Spec.AcquireTime.Time))
			} else {
				require.Equal(t, old.Spec.AcquireTime, lease.Spec.AcquireTime, "14.5: acquireTime stays")
			}
			if tc.renewed {
				require.True(t, old.Spec.RenewTime == nil || !lease.Spec.RenewTime.Before(old.Spec.RenewTime))
			} else {
				require.Equal(t, old.Spec.RenewTime, lease.Spec.RenewTime)
			}
			require.Equal(t, cr.GetResourceVersion(), s.cr("a").GetResourceVersion(), "11.2")
		})
	}
	for name, state := range map[string]func(s *scenario){
		"paused":     func(s *scenario) { s.updateNHC(pause("test")) },
		"unselected": func(s *scenario) { s.labelNode("a", map[string]any{scenarioLabel: "other"}) },
		"excluded":   func(s *scenario) { s.labelNode("a", map[string]any{v1alpha1.LabelExclude: "true"}) },
		"delayed": func(s *scenario) {
			s.updateNHC(healthyDelay(-time.Second))
			s.heal("a")
			s.eventually("healthyDelayed", func() bool { return s.entry("a").HealthyDelayed != nil })
		},
		"disabled": func(s *scenario) {
			s.deleteTemplate()
			s.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
		},
	} {
		t.Run("5.2-"+name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a")
			s.createNHC()
			s.fail("a")
			s.eventuallyCR("a")
			state(s)
			old := s.patchNodeLeaseSpec("a", map[string]any{"renewTime": ago(2 * time.Minute)})
			lease := s.eventuallyNodeLease("a", old)
			s.requireLease(lease, "a", 660*time.Second, 0)
			require.Equal(t, old.Spec.AcquireTime, lease.Spec.AcquireTime)
		})
	}
}

// TestLeaseAcrossSteps: the steps of a node share its lease (spec 14.5, 14.6, 13.6).
func TestLeaseAcrossSteps(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 3)
	l.createNodes("a")
	l.createNHC(l.escalation(2*time.Minute, 20*time.Minute, time.Minute))
	l.fail("a")
	l.eventuallyStep("a", 0)
	first := l.nodeLease("a")
	l.requireLease(first, "a", 180*time.Second, 0)
	// So that it can be told from now.
	first = l.patchNodeLeaseSpec("a", map[string]any{"acquireTime": microTime(time.Now().Add(-31 * time.Minute).Truncate(time.Second))})
	l.catchUp()
	l.requireFirstStep("a")
	require.Equal(t, first.ResourceVersion, l.nodeLease("a").ResourceVersion, "14.7: escalating steps end by their own timeout only")

	l.reportFailure("a")
	l.eventuallyStep("a", 1)
	second := l.nodeLease("a")
	l.requireLease(second, "a", 1260*time.Second, 0)
	require.Equal(t, first.UID, second.UID)
	require.Equal(t, first.Spec.AcquireTime, second.Spec.AcquireTime, "14.6")

	l.rungs[1].reportFailure("a")
	l.eventuallyStep("a", 2)
	require.Equal(t, second.ResourceVersion, l.nodeLease("a").ResourceVersion, "14.5: the end never moves to an earlier time")

	l.rungs[2].reportFailure("a")
	l.eventuallyExhausted("a")
	old := l.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now().Add(-time.Hour))})
	l.catchUp()
	require.Equal(t, old.ResourceVersion, l.nodeLease("a").ResourceVersion, "13.6: not renewed any more")
	l.rungs[2].setFinalizers("a", rungFinalizer)
	l.heal("a")
	l.eventuallyNoCR("a")
	l.eventually("only the last CR is left", func() bool { return len(l.entry("a").Remediations) == 1 })
	require.Equal(t, old.ResourceVersion, l.nodeLease("a").ResourceVersion, "13.6, 14.9")
	l.rungs[2].setFinalizers("a")
	l.eventuallyNoNodeLease("a")
	l.eventuallyCounts(1, 1)
}

// TestLeaseOverdue: the only end that a classic remediation has (spec 13.7, 14.7).
func TestLeaseOverdue(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *scenario {
		t.Helper()
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		s.eventuallyCR("a")
		return s
	}
	backDate := func(s *scenario, age time.Duration) *coordinationv1.Lease {
		s.t.Helper()
		return s.patchNodeLeaseSpec("a", map[string]any{"acquireTime": microTime(time.Now().Add(-age).Truncate(time.Second))})
	}
	eventuallyOver := func(s *scenario) {
		s.t.Helper()
		s.eventuallyNoNodeLease("a")
		s.eventually("timedOut in status", func() bool { return s.entry("a").Remediations[0].TimedOut != nil })
	}
	t.Run("14.7-overdue", func(t *testing.T) {
		s := begin(t)
		before := s.cr("a")
		s.reportFailure("a")
		backDate(s, 31*time.Minute)
		eventuallyOver(s)
		cr := s.eventuallyTimedOut("a")
		require.Equal(t, cr.GetAnnotations()[v1alpha1.AnnotationTimedOut], s.entry("a").Remediations[0].TimedOut.UTC().Format(time.RFC3339))
		s.eventuallyEvent("NoTemplateLeft", "Remediation timed out, and no template left to try. didn't find a template to use for NHC "+s.name+" and node "+s.node("a"))
		s.catchUp()
		require.Equal(t, before.GetUID(), s.cr("a").GetUID(), "14.7: the CR stays")
		require.Nil(t, s.cr("a").GetDeletionTimestamp())
		require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
		require.Nil(t, s.nodeLease("a"), "14.7: no new lease")
		require.Len(t, s.leaseRequests("create", "a"), 1, "14.7: no new lease")
		require.Len(t, s.crRequests("patch", "a"), 1, "14.7: no second annotation")
		require.Len(t, s.crRequests("create", "a"), 1)
		require.Len(t, s.events("NoTemplateLeft"), 1)
		s.heal("a")
		s.eventuallyNoCR("a")
		s.eventuallyCounts(1, 1)
		s.fail("a")
		s.eventuallyCR("a")
		s.requireLease(s.nodeLease("a"), "a", 660*time.Second, 0)
	})
	t.Run("14.7-by-time-alone", func(t *testing.T) {
		s := begin(t)
		lease := backDate(s, 30*time.Minute-4*time.Second)
		eventuallyOver(s)
		s.eventuallyTimedOut("a")
		require.False(t, s.entry("a").Remediations[0].TimedOut.Time.Before(lease.Spec.AcquireTime.Add(30*time.Minute)), "14.7: not before its time")
	})
	t.Run("14.7-not-yet", func(t *testing.T) {
		s := begin(t)
		lease := backDate(s, 29*time.Minute)
		s.catchUp()
		require.Equal(t, lease.ResourceVersion, s.nodeLease("a").ResourceVersion)
		require.Nil(t, s.entry("a").Remediations[0].TimedOut)
		require.Empty(t, s.crRequests("patch", "a"))
	})
	t.Run("14.7-succeeded", func(t *testing.T) {
		s := begin(t)
		s.report("a", [2]string{v1alpha1.RemediationSucceeded, "True"})
		cr := s.cr("a")
		backDate(s, 31*time.Minute)
		eventuallyOver(s)
		s.catchUp()
		require.Equal(t, cr.GetResourceVersion(), s.cr("a").GetResourceVersion(), "14.7: not with Succeeded=True")
		s.reportFailure("a")
		s.catchUp()
		require.Empty(t, s.crRequests("patch", "a"), "14.7: and not later either")
		require.Nil(t, s.nodeLease("a"))
		require.Len(t, s.leaseRequests("create", "a"), 1)
	})
	t.Run("5.3-paused", func(t *testing.T) {
		s := begin(t)
		s.updateNHC(pause("test"))
		backDate(s, 31*time.Minute)
		lease := s.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now().Add(-2 * time.Minute))})
		require.Equal(t, lease.Spec.AcquireTime, s.eventuallyNodeLease("a", lease).Spec.AcquireTime)
		require.Empty(t, s.crRequests("patch", "a"), "10.1")
		s.updateNHC(pause())
		eventuallyOver(s)
		s.eventuallyTimedOut("a")
	})
	t.Run("P5-release-denied", func(t *testing.T) {
		s := begin(t)
		allow := s.denyLeaseDeletion("a")
		backDate(s, 31*time.Minute)
		s.eventuallyTimedOut("a")
		s.eventually("a denied deletion of the lease", func() bool { return len(s.leaseRequests("delete", "a")) > 0 })
		s.eventually("timedOut in status", func() bool { return s.entry("a").Remediations[0].TimedOut != nil })
		allow()
		s.eventuallyNoNodeLease("a")
		require.Len(t, s.crRequests("patch", "a"), 1)
	})
}

// denyLeaseDeletion has the API server refuse the deletion of the lease of a node.
func (s *scenario) denyLeaseDeletion(name string) (allow func()) {
	s.t.Helper()
	return s.deny(s.t, "lease-of-"+s.name, denial{
		group: "coordination.k8s.io", resource: "leases", operation: admissionregistrationv1.Delete,
		unless: fmt.Sprintf("request.name != '%s'", s.nodeLeaseName(name)),
		try: func(ctx context.Context, dryRun []string) error {
			err := s.nodeLeases().Delete(ctx, s.nodeLeaseName(name), metav1.DeleteOptions{DryRun: dryRun})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		},
	})
}

// TestLeaseLost: a remediation that has lost its lease carries on without (spec 14.8,
// 14.9).
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	remove := func(s *scenario) {
		s.t.Helper()
		require.NoError(s.t, s.nodeLeases().Delete(s.t.Context(), s.nodeLeaseName("a"), metav1.DeleteOptions{}))
	}
	take := func(s *scenario) *coordinationv1.Lease {
		s.t.Helper()
		return s.patchNodeLeaseSpec("a", map[string]any{"holderIdentity": "node-maintenance", "leaseDurationSeconds": 3600})
	}
	t.Run("14.8-deleted", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		remove(s)
		s.catchUp()
		s.requireOnly("a", cr)
		require.Nil(t, s.nodeLease("a"), "14.8")
		require.Len(t, s.leaseRequests("create", "a"), 1, "14.8")
		require.Empty(t, s.events("RemediationSkipped"))
		// Another CR needs it.
		s.deleteCR("a")
		s.eventually("a new CR", func() bool { now := s.cr("a"); return now != nil && now.GetUID() != cr.GetUID() })
		s.eventuallyCR("a")
		s.requireLease(s.nodeLease("a"), "a", 660*time.Second, 0)
	})
	t.Run("14.8-foreign", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		cr := s.eventuallyCR("a")
		foreign := take(s)
		s.catchUp()
		s.requireOnly("a", cr)
		require.Empty(t, s.events("RemediationSkipped"), "14.8: it carries on")
		s.heal("a")
		s.eventuallyNoCR("a")
		s.eventuallyCounts(1, 1)
		s.catchUp()
		require.Equal(t, foreign.ResourceVersion, s.nodeLease("a").ResourceVersion, "14.9: it stays untouched")
		require.Empty(t, s.leaseRequests("delete", "a"), "14.9")
	})
	t.Run("14.9-without-holder", func(t *testing.T) {
		t.Parallel()
		s := newScenario(t, sharedCluster(t))
		s.createNodes("a")
		s.createNHC()
		s.fail("a")
		s.eventuallyCR("a")
		s.patchNodeLeaseSpec("a", map[string]any{"holderIdentity": nil})
		s.heal("a")
		s.eventuallyNoCR("a")
		s.eventuallyNoNodeLease("a")
	})
	t.Run("14.8-deleted-before-the-next-step", func(t *testing.T) {
		t.Parallel()
		l := newLadder(t, sharedCluster(t), 2)
		l.createNodes("a")
		l.createNHC(l.escalation(2*time.Minute, 3*time.Minute))
		l.fail("a")
		l.eventuallyStep("a", 0)
		remove(l.scenario)
		l.reportFailure("a")
		l.eventuallyStep("a", 1)
		l.requireLease(l.nodeLease("a"), "a", 240*time.Second, 0)
	})
	t.Run("14.2-foreign-before-the-next-step", func(t *testing.T) {
		t.Parallel()
		l := newLadder(t, sharedCluster(t), 2)
		l.createNodes("a")
		l.createNHC(l.escalation(2*time.Minute, 3*time.Minute))
		l.fail("a")
		l.eventuallyStep("a", 0)
		foreign := take(l.scenario)
		l.reportFailure("a")
		l.eventuallyEvent("RemediationSkipped", l.leaseTaken("a"))
		l.catchUp()
		l.requireFirstStep("a")
		require.Equal(t, foreign.ResourceVersion, l.nodeLease("a").ResourceVersion)
		require.Equal(t, []string{l.leaseTaken("a")}, l.events("RemediationSkipped"), "19.1: once")
		l.patchNodeLeaseSpec("a", map[string]any{"renewTime": microTime(time.Now().Add(-2 * time.Hour))})
		crs := l.eventuallyStep("a", 1)
		l.requireEnded("a", 0, crs[0])
		l.requireLease(l.nodeLease("a"), "a", 240*time.Second, 1)
		l.heal("a")
		l.eventuallyNoNodeLease("a")
	})
}

// TestLeaseOfDeletedNode is released by name (spec 14.9). Its owner is taken away, or
// the garbage collector might be faster.
func TestLeaseOfDeletedNode(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("a", "b")
	s.createNHC()
	s.fail("a")
	s.fail("b")
	s.eventuallyCR("a")
	s.eventuallyCR("b")
	s.setFinalizers("a", rungFinalizer)
	s.patchNodeLease("a", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
	foreign := s.patchNodeLease("b", map[string]any{"metadata": map[string]any{"ownerReferences": nil}, "spec": map[string]any{"holderIdentity": "other"}})
	s.t.Cleanup(func() {
		_ = s.nodeLeases().Delete(context.WithoutCancel(t.Context()), foreign.Name, metav1.DeleteOptions{})
	})
	s.deleteNode("a")
	s.eventuallyNoNodeLease("a") // 17.2: without waiting for finalizers.
	s.eventually("no entry", func() bool { return s.entry("a") == nil })
	s.deleteNode("b")
	s.eventuallyNoCR("b")
	s.eventually("no entry", func() bool { return s.entry("b") == nil })
	s.catchUp()
	require.Equal(t, foreign.ResourceVersion, s.nodeLease("b").ResourceVersion, "14.9: of another holder")
}

// TestLeaseWithoutCR: the creation of the CR fails (spec 14.2, 14.9).
func TestLeaseWithoutCR(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 1)
	l.createNodes("a", "b")
	l.createNHC(l.escalation())
	allow := l.deny(t, "creation-"+l.name, denial{
		group: l.kind.remediations.Group, resource: l.kind.remediations.Resource, operation: admissionregistrationv1.Create,
		unless: fmt.Sprintf("request.namespace != '%s'", l.name), try: l.tryCR,
	})
	l.fail("a")
	l.fail("b")
	for _, name := range []string{"a", "b"} {
		l.eventually("two denied attempts for node "+name, func() bool {
			return len(slices.DeleteFunc(l.creationAttempts(), func(r localkube.Request) bool { return r.Code == 201 })) >= 4
		})
	}
	a, b := l.nodeLease("a"), l.nodeLease("b")
	require.NotNil(t, a, "14.2: it stays for the next attempt")
	require.NotNil(t, b, "14.2: it stays for the next attempt")
	l.heal("b")
	l.eventuallyNoNodeLease("b")
	require.NotNil(t, l.nodeLease("a"))
	allow()
	l.eventuallyStep("a", 0)
	lease := l.nodeLease("a")
	l.requireLease(lease, "a", time.Hour+time.Minute, 0)
	require.Equal(t, a.UID, lease.UID, "14.2")
	require.Empty(t, l.leaseRequests("delete", "a"))
}

// creationAttempts returns the controller's requests to create a CR of the scenario.
func (s *scenario) creationAttempts() []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == "create" && r.Resource == s.kind.remediations.Resource && r.Namespace == s.name
	})
}

// TestLeaseOfTwoNodeHealthChecks: two that select the same nodes, with templates of
// different kinds, and nodes that fail at the same time (spec 11.5, 14.2).
func TestLeaseOfTwoNodeHealthChecks(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 1)
	other := newEmptyScenario(t, l.cluster, t.Name()+"/other", powerCycle)
	other.createTemplate(usualTemplate())
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	l.createNodes(names...)
	l.createNHC(l.escalation())
	other.createNHC(func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: l.name}}
	})
	for _, name := range names {
		l.fail(name)
	}
	// theirs tells whether the other one has a CR for a node of the first.
	theirs := func(name string) bool {
		_, err := other.crClient().Get(t.Context(), l.node(name), metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
		return err == nil
	}
	entries := func(s *scenario) map[string]int {
		listed := map[string]int{}
		for _, entry := range s.status().UnhealthyNodes {
			listed[entry.Name] = len(entry.Remediations)
		}
		return listed
	}
	l.eventually("every node is listed by both, and remediated by one", func() bool {
		ours, others := entries(l.scenario), entries(other)
		for _, name := range names {
			if len(ours) != len(names) || len(others) != len(names) || ours[l.node(name)]+others[l.node(name)] != 1 {
				return false
			}
		}
		return true
	})
	for _, name := range names {
		require.NotEqual(t, l.cr(name) != nil, theirs(name), "11.5: one or the other")
		winner, loser := l.scenario, other
		if theirs(name) {
			winner, loser = other, l.scenario
		}
		require.Equal(t, "NodeHealthCheck-"+winner.name, *l.nodeLease(name).Spec.HolderIdentity)
		loser.eventuallyEvent("RemediationSkipped", l.leaseTaken(name))
		require.NotContains(t, winner.events("RemediationSkipped"), l.leaseTaken(name))
	}
	for _, name := range names {
		l.heal(name)
	}
	l.eventually("all is over", func() bool { return len(entries(l.scenario)) == 0 && len(entries(other)) == 0 })
	for _, name := range names {
		l.eventuallyNoNodeLease(name)
	}
	created := slices.Concat(l.creationAttempts(), l.requests(func(r localkube.Request) bool {
		return r.Verb == "create" && r.Resource == powerCycle.remediations.Resource && r.Namespace == other.name
	}))
	require.Len(t, created, len(names), "11.5: the loser did not even try")
}
