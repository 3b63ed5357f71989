// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// statusGarbage is what a remediator may write where its schema does not forbid it.
var statusGarbage = map[string]map[string]any{
	"nothing":         {},
	"null":            {"conditions": nil},
	"text":            {"conditions": "Succeeded"},
	"number":          {"conditions": 1},
	"map":             {"conditions": map[string]any{"Succeeded": "False"}},
	"texts":           {"conditions": []any{"Succeeded", "False"}},
	"lists":           {"conditions": []any{[]any{map[string]any{"type": "Succeeded", "status": "False"}}}},
	"boolean":         {"conditions": []any{map[string]any{"type": "Succeeded", "status": false}}},
	"lower-case":      {"conditions": []any{map[string]any{"type": "Succeeded", "status": "false"}}},
	"no-type":         {"conditions": []any{map[string]any{"status": "False"}}},
	"bad-time":        {"conditions": []any{map[string]any{"type": "FencingSucceeded", "status": "True", "lastTransitionTime": "yesterday"}}},
	"number-for-time": {"conditions": []any{map[string]any{"type": "FencingSucceeded", "status": "True", "lastTransitionTime": 5}}},
}

// TestStatusGarbage: a remediator may write anything into its status. Unreadable fields
// count as not set, and nothing is deleted because of them (spec 11.7, P5).
func TestStatusGarbage(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.installAll()
	names := slices.Sorted(maps.Keys(statusGarbage))
	s.createNodes(append(names, "failing")...)
	s.createNHC(minHealthy(intstr.FromInt32(0)), func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{{RemediationTemplate: *spec.RemediationTemplate, Timeout: metav1.Duration{Duration: time.Hour}}}
		spec.RemediationTemplate = nil
	})
	for _, name := range append(names, "failing") {
		s.fail(name)
	}
	for _, name := range names {
		s.eventuallyCR(name)
		s.patch(s.crClient(), s.node(name), map[string]any{"status": statusGarbage[name]}, "status")
	}
	s.eventuallyCR("failing")
	s.reportFailure("failing")
	s.eventuallyDecided("failing", v1alpha1.DecidedStepFailed)
	for _, name := range names {
		cr := s.cr(name)
		require.Nil(t, cr.GetDeletionTimestamp(), name)
		require.NotContains(t, cr.GetAnnotations(), v1alpha1.AnnotationTimedOut, name)
		require.Nil(t, s.entry(name).Remediations[0].TimedOut, name)
		s.heal(name)
	}
	for _, name := range names {
		s.eventuallyNoCR(name)
		s.requireRequests("create", name, 1)
	}
}

// leaseGarbage is what the API server accepts for the lease of a node, from anybody,
// and whether it keeps a CR from being created.
var leaseGarbage = map[string]struct {
	spec  func(*coordinationv1.LeaseSpec)
	taken bool
}{
	"empty":              {spec: func(spec *coordinationv1.LeaseSpec) { *spec = coordinationv1.LeaseSpec{} }},
	"no-renew-time":      {spec: func(spec *coordinationv1.LeaseSpec) { spec.RenewTime = nil }},
	"no-duration":        {spec: func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = nil }},
	"in-the-future":      {spec: func(spec *coordinationv1.LeaseSpec) { spec.RenewTime.Time = time.Now().AddDate(1000, 0, 0) }},
	"in-the-remote-past": {spec: func(spec *coordinationv1.LeaseSpec) { spec.RenewTime.Time = time.Unix(-1e10, 0) }},
	"for-ever":           {spec: func(spec *coordinationv1.LeaseSpec) { spec.LeaseDurationSeconds = new(int32(1<<31 - 1)) }, taken: true},
	"many-transitions": {spec: func(spec *coordinationv1.LeaseSpec) {
		spec.LeaseTransitions = new(int32(1<<31 - 1))
		spec.RenewTime = nil
	}},
	"acquired-long-ago":    {spec: func(spec *coordinationv1.LeaseSpec) { spec.AcquireTime = &metav1.MicroTime{Time: time.Unix(0, 0)} }, taken: true},
	"with-a-strange-name":  {spec: func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = new("\x00\n𝄞") }, taken: true},
	"of-a-nameless-holder": {spec: func(spec *coordinationv1.LeaseSpec) { spec.HolderIdentity = new("NodeHealthCheck-") }, taken: true},
}

// TestLeaseGarbage: whatever stands in the lease of a node, it is taken over, or left
// alone and waited for (spec 14.3, 14.4).
func TestLeaseGarbage(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	names := slices.Sorted(maps.Keys(leaseGarbage))
	s.createNodes(names...)
	s.createNHC(minHealthy(intstr.FromInt32(0)), pause("to prepare the leases"))
	for _, name := range names {
		s.createNodeLease(name, leaseGarbage[name].spec)
	}
	for _, name := range names {
		s.fail(name)
	}
	s.eventuallyCounts(int32(len(names)), 0)
	s.updateNHC(pause())
	for _, name := range names {
		if !leaseGarbage[name].taken {
			s.eventuallyCR(name)
			continue
		}
		decision := s.eventuallyDecided(name, v1alpha1.DecidedLeaseTaken)
		require.Contains(t, decision.Message, fmt.Sprintf("Lease node-%s is held by", s.node(name)))
		require.Nil(t, s.cr(name))
	}
}

// addOwner gives a CR a further owner.
func (s *scenario) addOwner(cr *unstructured.Unstructured) {
	s.t.Helper()
	further, err := s.kube.CoreV1().ConfigMaps(s.name).Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	owners := append(cr.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: further.Name, UID: further.UID})
	s.patch(s.crClient(), cr.GetName(), map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
}

// TestSharedCRs: garbage collection only takes the reference to a NodeHealthCheck that is gone away from a CR that has
// a further owner. Then the controller deletes it (spec 4.8), unless dependents are to be orphaned.
func TestSharedCRs(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]metav1.DeletionPropagation{
		"4.8 deleted": metav1.DeletePropagationBackground, "4.8 orphaned": metav1.DeletePropagationOrphan,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScenario(t, sharedCluster(t))
			s.createNodes("a", "b")
			s.createNHC()
			s.fail("a")
			s.addOwner(s.eventuallyCR("a"))
			s.catchUp()
			s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
				metadataPatch("annotations", map[string]any{v1alpha1.AnnotationAllowDelete: ""}))
			require.NoError(t, s.nhc.RemediationV1alpha1().NodeHealthChecks().Delete(t.Context(), s.name, metav1.DeleteOptions{PropagationPolicy: &policy}))
			if policy == metav1.DeletePropagationBackground {
				s.eventually("the CR is gone", func() bool { return s.cr("a") == nil })
				return
			}
			s.eventually("the CR is orphaned", func() bool { return len(s.cr("a").GetOwnerReferences()) == 1 })
			s.requireRequests("delete", "a", 0)
		})
	}
}
