// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// TestBudgetSurvives: what holds when the process dies, when budgets cannot be read, and when
// their kind goes (spec B1.4, B3.4, P5, P8).
func TestBudgetSurvives(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	first := c.startController(t, "first", "--leader-elect=false")
	s := newScenario(t, c)
	s.createNodes("a", "b", "c")
	s.createNHC()
	s.createBudget(maxConcurrent(1))
	s.fail("a")
	running := s.eventuallyCR("a")
	s.fail("b")
	held := s.name + ": 1 of at most 1 nodes are under remediation"
	s.eventuallyHeldByBudget("b", held)
	require.NoError(t, first.Kill())

	second := c.startController(t, "second", "--leader-elect=false")
	s.fail("c")
	s.eventuallyHeldByBudget("c", held) // The CR of the process before counts.
	s.requireOnly("a", running)
	require.Nil(t, s.cr("b"))
	require.NoError(t, second.Kill())

	restore := c.withdraw(t, permission{verb: "list", group: nhcv1alpha1.GroupName, resource: nhcv1alpha1.BudgetPlural, role: "nhc-controller"})
	c.startController(t, "third", "--leader-elect=false")
	s.heal("a")
	s.eventuallyNoCR("a") // B1.2, also while nothing is known of budgets.
	s.eventuallyHeldByBudget("b", "RemediationBudgets cannot be read: no permission to list "+nhcv1alpha1.BudgetPlural+"."+nhcv1alpha1.GroupName)
	restore()
	s.eventuallyCR("b")
	require.Nil(t, s.cr("c"), "B3.2")

	_, err := s.Kubectl(t.Context(), "delete", "crd", nhcv1alpha1.BudgetPlural+"."+nhcv1alpha1.GroupName)
	require.NoError(t, err)
	s.eventuallyCR("c") // B1.4: without the kind there are no budgets.

	s.createUnreadableBudget()
	var message string
	s.eventually("condition Valid has the cause", func() bool {
		message, err = s.Kubectl(t.Context(), "get", "rbudget", s.name, `-o=jsonpath={.status.conditions[?(@.type=="Valid")].message}`)
		return err == nil && strings.HasPrefix(message, "the budget cannot be read: ")
	})
	s.eventuallyBudgetEvent(nhcv1alpha1.ReasonInvalidBudget, message)
	s.createNodes("d")
	s.fail("d")
	s.eventually("the node waits", func() bool {
		entry := s.entry("d")
		return entry != nil && entry.Decision != nil && strings.HasPrefix(entry.Decision.Message, s.name+": the budget cannot be read: ")
	})
	require.Nil(t, s.cr("d"), "B2.2")
	_, err = s.Kubectl(t.Context(), "patch", "rbudget", s.name, "--type=merge", `--patch={"spec":{"nodeSelector":{"matchLabels":{"of":"another"}}}}`)
	require.NoError(t, err)
	s.eventuallyCR("d")
	s.eventually("the budget is valid", func() bool { return s.budgetCondition(nhcv1alpha1.ConditionBudgetValid).Status == metav1.ConditionTrue })

	_, err = s.Kubectl(t.Context(), "patch", "rbudget", s.name, "--type=merge", `--patch={"spec":{"nodeSelector":null,"machineSelector":{"namespace":"machines","selector":{}}}}`)
	require.NoError(t, err)
	const noMachines = "machineSelector needs the controller machinehealthcheck, which does not run"
	s.eventually("the budget is not valid", func() bool {
		return strings.HasPrefix(s.budgetCondition(nhcv1alpha1.ConditionBudgetValid).Message, noMachines)
	})
	s.createNodes("e")
	s.fail("e")
	s.eventuallyHeldByBudget("e", s.name+": "+noMachines) // B2.2: which nodes have such Machines is not known.
}

// createUnreadableBudget installs the kind without its rules, and creates a budget that cannot be
// understood.
func (s *scenario) createUnreadableBudget() {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "manifests", "base", "crd", "remediationbudgets.yaml"))
	require.NoError(s.t, err)
	crd := &unstructured.Unstructured{}
	require.NoError(s.t, yaml.Unmarshal(content, &crd.Object))
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	require.NoError(s.t, unstructured.SetNestedMap(versions[0].(map[string]any), anything, "schema", "openAPIV3Schema", "properties", "spec"))
	require.NoError(s.t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	_, err = s.dynamic.Resource(crdResource).Create(s.t.Context(), crd, metav1.CreateOptions{})
	require.NoError(s.t, err)
	budget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeSelector": "all of them", "maxConcurrent": int64(1)}}}
	budget.SetGroupVersionKind(nhcv1alpha1.SchemeGroupVersion.WithKind(nhcv1alpha1.BudgetKind))
	budget.SetName(s.name)
	s.eventually("the kind is served", func() bool {
		_, err = s.dynamic.Resource(nhcv1alpha1.SchemeGroupVersion.WithResource(nhcv1alpha1.BudgetPlural)).Create(s.t.Context(), budget, metav1.CreateOptions{})
		return err == nil
	})
}
