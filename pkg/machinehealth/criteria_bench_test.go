// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// benchmarkChecks are MachineHealthChecks as users have them.
func benchmarkChecks(n int) []*v1beta1.MachineHealthCheck {
	var checks []*v1beta1.MachineHealthCheck
	for i := range n {
		checks = append(checks, &v1beta1.MachineHealthCheck{Spec: v1beta1.MachineHealthCheckSpec{
			Selector: metav1.LabelSelector{
				MatchLabels:      map[string]string{"pool": fmt.Sprint(i)},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1beta1.LabelRole, Operator: metav1.LabelSelectorOpNotIn, Values: []string{v1beta1.RoleMaster}}},
			},
			UnhealthyConditions: []v1beta1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: "300s"}, {Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: "300s"},
			},
		}})
	}
	return checks
}
