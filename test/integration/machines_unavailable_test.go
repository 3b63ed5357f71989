// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/machineset"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// machineRole is the ClusterRole of the controller for Machines.
const machineRole = "nhc-controller-machine-health-check"

// TestMachinesUnavailable: a MachineHealthCheck says that its Machines are not served, or that a
// permission is missing to read them or what says how they may be treated (spec M7.5). Then nothing is
// remediated, and later everything that is due. Of Cluster API it is about v1beta1, too.
func TestMachinesUnavailable(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.createNamespaces(t, machineNamespace)
	c.applyOverlay(t, ownOverlay)
	controller := c.startController(t, "unavailable")
	eventuallyLogged(t, controller, "Looking after MachineHealthChecks")
	ofClusterAPI := clusterAPIIn(t, "v1beta1")

	// One after the other: both change what the controller may do.
	t.Run("OpenShift", func(t *testing.T) { newMachineScenario(t, c, openShiftMachine).testUnavailable() })
	t.Run("Cluster API", func(t *testing.T) { newMachineScenario(t, c, ofClusterAPI.machine).testUnavailable() })
	t.Run("Clusters", func(t *testing.T) { testClustersForbidden(t, c, ofClusterAPI) })
}

// testUnavailable: the kind of the Machines is not there, then it is, then a permission is missing.
func (s *machineScenario) testUnavailable() {
	t, kind := s.t, s.api.machine
	s.createCheck()
	s.eventuallyUnavailable("MachinesNotServed", "the API server does not serve Machines of "+s.api.group())
	s.installOptional(t, kind)
	s.eventuallyAvailable()

	s.createMachine("a")
	s.createMachine("b")
	s.join("a", "b")
	s.eventuallyCounts(2, 2)
	s.createMachineBudget()
	s.eventuallyBudget(metav1.ConditionTrue, "")
	restore := s.withdrawVerb(t, kind, "list")
	forbidden := "no permission to list " + kind.crd()
	s.eventuallyUnavailable("MachinesForbidden", "the controller has "+forbidden)
	s.eventuallyBudget(metav1.ConditionFalse, forbidden)
	s.setReady("a", corev1.ConditionUnknown)
	s.requireAllSynced()
	status := s.status()
	require.Equal(t, 2, *status.CurrentHealthy, "what was known last")
	require.Equal(t, int32(0), *status.RemediationsAllowed)
	require.Empty(t, s.deleteRequests(""))
	restore()
	s.eventuallyGone("a")
	s.eventuallyAvailable()
	s.eventuallyBudget(metav1.ConditionTrue, "")
}

// testClustersForbidden: whether the Cluster of a Machine is paused cannot be read.
func testClustersForbidden(t *testing.T, c *cluster, kinds clusterAPI) {
	c.installOptional(t, kinds.machine, kinds.cluster, kinds.healthCheck)
	s := newMachineScenario(t, c, kinds.machine)
	c.createOptional(t, kinds.cluster, s.name, "this", map[string]any{"spec": map[string]any{"paused": true}})
	s.createMachine("a", machineset.Finalized)
	s.join("a")
	s.createCheck()
	s.eventuallyCounts(1, 1)
	restore := c.withdrawVerb(t, kinds.cluster, "get")
	s.eventuallyUnavailable("MachinesForbidden", "the controller has no permission to get clusters.cluster.x-k8s.io")
	s.setReady("a", corev1.ConditionUnknown)
	s.requireAllSynced()
	require.Empty(t, s.deleteRequests(""), "P5: the Cluster may be paused, and it is")
	restore()
	s.eventuallyDecided("a", "ClusterPaused")
	s.eventuallyAvailable()
	t.Run("v1beta1", func(t *testing.T) { testClusterPaused(t, c, kinds) })
}

// createMachineBudget creates a RemediationBudget about the Machines of the scenario.
func (s *machineScenario) createMachineBudget() {
	s.t.Helper()
	_, err := s.nhc.NHCV1alpha1().RemediationBudgets().Create(s.t.Context(), &nhcv1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec:       nhcv1alpha1.RemediationBudgetSpec{MachineSelector: &nhcv1alpha1.BudgetMachineSelector{Namespace: s.name}, MaxConcurrent: new(intstr.FromInt32(1))},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// eventuallyBudget waits until condition Valid of that budget says whether Machines can be counted. As
// long as they cannot, it allows nothing (spec B2.2).
func (s *machineScenario) eventuallyBudget(valid metav1.ConditionStatus, message string) {
	s.t.Helper()
	s.eventually("the budget says whether Machines can be counted", func() bool {
		budget, err := s.nhc.NHCV1alpha1().RemediationBudgets().Get(s.t.Context(), s.name, metav1.GetOptions{})
		require.NoError(s.t, err)
		condition := meta.FindStatusCondition(budget.Status.Conditions, nhcv1alpha1.ConditionBudgetValid)
		return condition != nil && condition.Status == valid && strings.Contains(condition.Message, message) &&
			(valid == metav1.ConditionTrue || *budget.Status.RemediationsAllowed == 0)
	})
}

// eventuallyUnavailable waits until condition and event say why Machines cannot be read.
func (s *machineScenario) eventuallyUnavailable(reason, message string) {
	s.t.Helper()
	message = "Remediation is not allowed, " + message
	s.eventually("condition RemediationAllowed has reason "+reason, func() bool {
		return slices.ContainsFunc(s.status().Conditions, func(c v1beta1.Condition) bool {
			return c.Type == v1beta1.ConditionRemediationAllowed && c.Status == corev1.ConditionFalse && c.Severity == v1beta1.SeverityError && c.Reason == reason && c.Message == message
		})
	})
	s.eventuallyEvent("MachineHealthCheck", s.name, "RemediationSkipped", "[remediation] "+message)
	require.Len(s.t, slices.DeleteFunc(s.events("MachineHealthCheck", s.name, "RemediationSkipped"), func(note string) bool { return !strings.HasSuffix(note, message) }), 1, "M17.1: once")
}

// requireAllSynced makes the controller sync all MachineHealthChecks of the namespace, by a new one, which says why
// Machines cannot be read, too.
func (s *machineScenario) requireAllSynced() {
	s.t.Helper()
	check := s.check(func(check *v1beta1.MachineHealthCheck) {
		check.Name, check.Spec.Selector = "new", metav1.LabelSelector{MatchLabels: map[string]string{"role": "none"}}
	})
	_, err := s.nhc.MachineV1beta1().MachineHealthChecks(s.name).Create(s.t.Context(), check, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.eventually("the new one says so, too", func() bool {
		return hasMachineCondition(s.statusOf("new"), v1beta1.ConditionRemediationAllowed, corev1.ConditionFalse)
	})
}

func (s *machineScenario) eventuallyAvailable() {
	s.t.Helper()
	s.eventually("condition RemediationAllowed is True", func() bool {
		return hasMachineCondition(s.status(), v1beta1.ConditionRemediationAllowed, corev1.ConditionTrue)
	})
}

// withdrawVerb takes away a permission for objects of a kind, and has the controller notice, as has
// restore.
func (c *cluster) withdrawVerb(t *testing.T, kind optionalKind, verb string) (restore func()) {
	t.Helper()
	withdrawn := permission{role: machineRole, verb: verb, group: kind.resource.Group, resource: kind.resource.Resource}
	roles := c.kube.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), machineRole, metav1.GetOptions{})
	require.NoError(t, err)
	granted := role.Rules
	set := func(rules []rbacv1.PolicyRule, permitted bool) {
		t.Helper()
		role.Rules, role.ResourceVersion = rules, ""
		_, err := roles.Update(t.Context(), role, metav1.UpdateOptions{})
		require.NoError(t, err)
		patience.Eventually(t, fmt.Sprintf("%s: %t", withdrawn, !permitted), func() bool { return c.permitted(t, withdrawn) == permitted })
		c.touch(t, kind, strconv.FormatBool(permitted))
	}
	var left []rbacv1.PolicyRule
	for _, p := range permissions("", machineRole, granted) {
		if p != withdrawn {
			left = append(left, p.rule())
		}
	}
	set(left, false)
	return func() { set(granted, true) }
}

// touch makes the controller look at a kind again, instead of waiting until it does.
func (c *cluster) touch(t *testing.T, kind optionalKind, value string) {
	t.Helper()
	patch, err := json.Marshal(metadataPatch("annotations", map[string]any{"test.nhc-controller.io/touched": value}))
	require.NoError(t, err)
	_, err = c.dynamic.Resource(crdResource).Patch(t.Context(), kind.crd(), types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}
