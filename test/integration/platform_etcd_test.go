// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestOpenShiftEtcd: a control plane node is remediated only if etcd can do without it (spec
// 12.3, 12.4).
func TestOpenShiftEtcd(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.startOnOpenShift(t)
	c.installOptional(t, clusterVersion)
	patience.Eventually(t, "the controller watches ClusterVersions, by which it knows OpenShift", func() bool {
		return len(c.audited(t, func(r localkube.Request) bool {
			return r.Resource == clusterVersion.resource.Resource && r.Verb == "list" && r.Code == http.StatusOK && r.User == deploy.User
		})) > 0
	})
	s := newOnPlatform(t, c)
	s.createNodes("a", "b")
	s.createBudget("etcd", 0)
	s.createNHC()
	refusal := func(name string) string {
		return fmt.Sprintf("Skipping remediation of %s for preventing control plane / etcd quorum loss, going to retry in a minute", s.node(name))
	}
	// refused and allowed fail a control plane node, and heal it in the end.
	fail := func(name string) {
		t.Helper()
		if s.kubeNode(name) == nil {
			s.createNodes(name)
		}
		s.labelNode(name, map[string]any{"node-role.kubernetes.io/master": ""})
		s.fail(name)
	}
	heal := func(name string) {
		t.Helper()
		s.heal(name)
		s.eventuallyNoCR(name)
		s.eventuallyListed(map[string]int{})
	}
	refused := func(name string) {
		t.Helper()
		fail(name)
		s.eventuallyEvent("RemediationSkipped", refusal(name))
		s.fail("a")
		s.eventuallyCR("a") // P1: the other nodes are none of its business.
		s.eventuallyListed(map[string]int{"a": 1, name: 0})
		s.heal("a")
		s.eventuallyNoCR("a")
		s.requireNeverCreated(name)
	}
	allowed := func(name string) {
		t.Helper()
		fail(name)
		s.eventuallyCR(name)
		require.NotContains(t, s.events("RemediationSkipped"), refusal(name))
		heal(name)
	}

	s.createNodes("first", "neighbour")
	s.createEtcd("etcd-first", "first", corev1.ConditionTrue)
	s.createEtcd("etcd-neighbour", "neighbour", corev1.ConditionTrue)
	refused("first")
	s.setReady("etcd-first", corev1.ConditionUnknown)
	s.fail("b")
	s.eventuallyCR("b")
	s.heal("b")
	s.eventuallyNoCR("b")
	s.requireNeverCreated("first") // 12.3: Unknown refuses
	require.Equal(t, []string{refusal("first")}, s.events("RemediationSkipped"), "19.1: begins to refuse")
	require.Equal(t, []string{refusal("first")}, s.eventsAbout("Node", s.node("first"), "RemediationSkipped"), "19.1: on the Node too")
	s.setReady("etcd-first", corev1.ConditionFalse)
	s.eventuallyCR("first") // 12.4: by the next attempt
	s.requireRefusedOnce("first")
	heal("first")

	allowed("no-pod")
	s.createNodes("no-condition")
	s.createEtcd("etcd-no-condition", "no-condition", "")
	allowed("no-condition")
	s.createNodes("one-works")
	s.createEtcd("etcd-one-works", "one-works", corev1.ConditionFalse)
	s.createEtcd("etcd-one-works-indeed", "one-works", corev1.ConditionTrue)
	refused("one-works")
	heal("one-works")
	s.setAllowed("etcd", 1)
	allowed("neighbour")
	s.createBudget("another", 3)
	refused("two-budgets")
	heal("two-budgets")
	s.deleteBudget("another")
	allowed("one-budget")
	s.deleteBudget("etcd")
	refused("no-budget")
	heal("no-budget")
	s.createBudget("etcd", 3)
	_, err := c.Kubectl(t.Context(), "delete", "-n", "openshift-etcd", "rolebinding", "nhc-controller-etcd")
	require.NoError(t, err)
	s.eventuallyMayReadEtcd(false)
	refused("no-permission")
	c.applyOverlay(t, "openshift")
	s.eventuallyMayReadEtcd(true)
	s.eventuallyCR("no-permission")
	require.Equal(t, metav1.ConditionFalse, s.disabled().Status)
}

func (s *onPlatform) requireRefusedOnce(name string) {
	s.t.Helper()
	require.Len(s.t, s.eventsAbout("Node", s.node(name), "RemediationSkipped"), 1)
	require.Len(s.t, s.crRequests("create", name), 1)
}

// createBudget creates a budget of etcd, which permits this number of disruptions.
func (s *onPlatform) createBudget(name string, allowed int32) {
	s.t.Helper()
	_, err := s.kube.PolicyV1().PodDisruptionBudgets("openshift-etcd").Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "etcd"}}},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.setAllowed(name, allowed)
}

func (s *onPlatform) setAllowed(name string, allowed int32) {
	s.t.Helper()
	budgets := s.dynamic.Resource(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")).Namespace("openshift-etcd")
	s.patch(budgets, name, map[string]any{"status": map[string]any{
		"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3 - allowed, "expectedPods": 3,
	}}, "status")
}

func (s *onPlatform) deleteBudget(name string) {
	s.t.Helper()
	require.NoError(s.t, s.kube.PolicyV1().PodDisruptionBudgets("openshift-etcd").Delete(s.t.Context(), name, metav1.DeleteOptions{}))
}

// createEtcd creates a pod of etcd on a node.
func (s *onPlatform) createEtcd(name, node string, ready corev1.ConditionStatus) {
	s.t.Helper()
	pods := s.kube.CoreV1().Pods("openshift-etcd")
	s.eventually("pod "+name, func() bool {
		_, err := pods.Create(s.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "etcd"}},
			Spec:       corev1.PodSpec{NodeName: s.node(node), Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}},
		}, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err) // The ServiceAccount takes a moment.
	})
	s.setReady(name, ready)
}

// setReady sets condition Ready of a pod; an empty status removes it.
func (s *onPlatform) setReady(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	pods := s.kube.CoreV1().Pods("openshift-etcd")
	pod, err := pods.Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	if status != "" {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status})
	}
	_, err = pods.UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(s.t, err)
}

// eventuallyMayReadEtcd waits until RBAC lets the controller read the budgets, or
// does not.
func (s *onPlatform) eventuallyMayReadEtcd(permitted bool) {
	s.t.Helper()
	s.eventually("RBAC has followed", func() bool {
		answer, _ := s.Kubectl(s.t.Context(), "auth", "can-i", "list", "poddisruptionbudgets.policy", "-n", "openshift-etcd", "--as", deploy.User)
		return strings.TrimSpace(answer) == map[bool]string{true: "yes", false: "no"}[permitted]
	})
}
