// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestWithoutMachineHealthChecks: the controller of MachineHealthChecks runs where these are not served, or may not
// be read. No Node waits for them, with a budget or without (F10).
func TestWithoutMachineHealthChecks(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *cluster){
		"they may not be read": func(*testing.T, *cluster) {},
		"they are not served": func(t *testing.T, c *cluster) {
			t.Helper()
			c.applyOverlay(t, ownOverlay)
			_, err := c.Kubectl(t.Context(), "delete", "crd", "machinehealthchecks.machine.openshift.io")
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := exclusiveCluster(t)
			prepare(t, c)
			c.startController(t, "without", "--controllers=*,machinehealthcheck")
			s := newScenario(t, c)
			s.createNodes("a", "b")
			_, err := s.nhc.RemediationV1alpha1().RemediationBudgets().Create(t.Context(), &v1alpha1.RemediationBudget{
				ObjectMeta: metav1.ObjectMeta{Name: s.name},
				Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}, MaxConcurrent: new(intstr.FromInt32(1))},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			s.createNHC()
			s.fail("a")
			s.eventuallyCR("a")
		})
	}
}
