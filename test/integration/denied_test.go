// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestDeniedByAdmission: what admission refuses is tried again and does no harm to
// other nodes. It is no missing permission (spec 6.6, 11.4, P1).
func TestDeniedByAdmission(t *testing.T) {
	t.Parallel()
	s := newRepairScenario(t, sharedCluster(t), "")
	s.installAll()
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.eventuallyCounts(3, 3)
	allow := s.denyCR("a")
	s.fail("a")
	s.eventuallyListed(map[string]int{"a": 0})
	s.fail("b")
	s.eventuallyCR("b")
	s.eventually("several attempts", func() bool { return len(s.crRequests("create", "a")) >= 4 })
	s.eventuallyListed(map[string]int{"a": 0, "b": 1})
	s.eventuallyCounts(3, 1)
	s.requireEnabled()
	require.Equal(t, v1alpha1.PhaseRemediating, s.status().Phase)
	s.heal("b")
	s.eventuallyNoCR("b")
	s.catchUp()
	attempts := s.crRequests("create", "a")
	for i, backoff := 1, 100*time.Millisecond; i < len(attempts); i, backoff = i+1, 2*backoff {
		require.GreaterOrEqual(t, attempts[i].Time.Sub(attempts[i-1].Time), backoff, "P1: with backoff: %v", attempts)
	}
	allow()
	s.requireOnly("a", s.eventuallyCR("a"))
	s.heal("a")
	s.eventuallyNoCR("a")
	s.eventuallyCounts(3, 3)
	require.Empty(t, s.events("Disabled"), "6.6")
	s.requireEvents("Node", s.node("a"), "RemediationCreated", 1)
	s.requireEvents("Node", s.node("a"), "DetectedUnhealthy", 1)
}

// denyCR makes admission refuse the CR of a node as a quota does, until the
// returned function is called.
func (s *scenario) denyCR(name string) (allow func()) {
	s.t.Helper()
	policies, bindings := s.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies(), s.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{s.kind.remediations.Group}, APIVersions: []string{"*"}, Resources: []string{s.kind.remediations.Resource},
					},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: fmt.Sprintf("object.metadata.name != '%s'", s.node(name)), Message: "exceeded quota", Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
	_, err := policies.Create(s.t.Context(), policy, metav1.CreateOptions{})
	require.NoError(s.t, err)
	_, err = bindings.Create(s.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	remove := func(ctx context.Context) {
		_ = bindings.Delete(ctx, s.name, metav1.DeleteOptions{})
		_ = policies.Delete(ctx, s.name, metav1.DeleteOptions{})
	}
	s.atEnd = append(s.atEnd, remove)
	s.eventually("the policy is in force", func() bool {
		cr := &unstructured.Unstructured{Object: map[string]any{}}
		cr.SetGroupVersionKind(s.kind.remediations.GroupVersion().WithKind(s.kind.name))
		cr.SetName(s.node(name))
		_, err := s.crClient().Create(s.t.Context(), cr, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
	return func() { remove(s.t.Context()) }
}
