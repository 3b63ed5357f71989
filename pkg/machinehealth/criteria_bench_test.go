// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"fmt"
	"testing"

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

// BenchmarkNewCriteria reads one MachineHealthCheck: what an event of a Machine costs for each of its
// namespace.
func BenchmarkNewCriteria(b *testing.B) {
	check := benchmarkChecks(1)[0]
	for b.Loop() {
		NewCriteria(check)
	}
}

// BenchmarkClaims finds out for 5,000 Machines to which of ten MachineHealthChecks they belong, as a
// sync of a NodeHealthCheck of all their Nodes does while all of them are unhealthy. The criteria are
// read for each Machine, or kept.
func BenchmarkClaims(b *testing.B) {
	checks := benchmarkChecks(10)
	var machines []*Machine
	for i := range 5000 {
		machines = append(machines, machine(fmt.Sprint("m-", i), func(m *Machine) { m.Labels = map[string]string{"pool": fmt.Sprint(i % 10)} }))
	}
	selects := func(b *testing.B, criteria func(i int) Criteria) {
		b.Helper()
		for b.Loop() {
			selected := 0
			for _, m := range machines {
				for i := range checks {
					if c := criteria(i); c.Selects(m) && !c.OnlyTermination() {
						selected++
					}
				}
			}
			if selected != len(machines) {
				b.Fatalf("%d of %d", selected, len(machines))
			}
		}
	}
	b.Run("read", func(b *testing.B) {
		selects(b, func(i int) Criteria { return NewCriteria(checks[i]) })
	})
	b.Run("kept", func(b *testing.B) {
		var kept []Criteria
		for _, check := range checks {
			kept = append(kept, NewCriteria(check))
		}
		selects(b, func(i int) Criteria { return kept[i] })
	})
}
