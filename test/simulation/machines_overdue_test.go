// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// eventsOf returns how many events there are with a reason about objects of a kind.
func (m *machineAPI) eventsOf(kind, reason string) (n int) {
	for _, event := range m.server.List(events) {
		about, _, _ := unstructured.NestedString(event.Object, "regarding", "kind")
		if given, _, _ := unstructured.NestedString(event.Object, "reason"); given == reason && about == kind {
			n++
		}
	}
	return n
}

// TestRemediationOverdue: a remediation that has not ended after 30 min is reported, once, and goes on; the end of it
// is noticed (spec M12.6). FR-327: a repair in place ran for ever, and nothing said so.
func TestRemediationOverdue(t *testing.T) {
	t.Parallel()
	byTemplate := func(m *machineAPI, mhc *v1beta1.MachineHealthCheck) {
		mhc.Spec.RemediationTemplate = &m.references()[0]
	}
	byAnnotation := func(_ *machineAPI, mhc *v1beta1.MachineHealthCheck) {
		mhc.Annotations = map[string]string{v1beta1.AnnotationRemediationStrategy: v1beta1.StrategyExternalBaremetal}
	}
	deletes := func(*machineAPI, *v1beta1.MachineHealthCheck) {}
	nothing := func(*machineAPI) {}
	for name, tc := range map[string]struct {
		strategy  func(*machineAPI, *v1beta1.MachineHealthCheck)
		meanwhile func(*machineAPI)
		running   v1alpha1.DecisionReason
	}{
		"FR-327 a remediation object":           {byTemplate, nothing, v1alpha1.DecidedStepRunning},
		"a remediation object, another process": {byTemplate, (*machineAPI).replaceLeader, v1alpha1.DecidedStepRunning},
		"a deletion":                            {deletes, nothing, v1beta1.DecidedMachineDeleting},
		"a deletion, another process":           {deletes, (*machineAPI).replaceLeader, v1beta1.DecidedMachineDeleting},
		"an annotation":                         {byAnnotation, nothing, v1beta1.DecidedExternalRemediation},
		"an annotation, another process":        {byAnnotation, (*machineAPI).replaceLeader, v1beta1.DecidedExternalRemediation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apis := machineAPIs
			if tc.running == v1beta1.DecidedExternalRemediation {
				apis = handingOver
			}
			withMachinesOf(t, apis, func(t *testing.T, m *machineAPI) {
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.fates[m.machine(machine).GetUID()].lingers = 2 * time.Hour
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { tc.strategy(m, mhc) })
				m.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(30*time.Second + inTime)
				require.Equal(t, tc.running, m.decision("east", machine))
				next := m.mhc("east").Status.UnhealthyMachines[0].Decision.NextCheckTime
				require.NotNil(t, next, "M12.6: it is said when that is too long")
				m.sleep(time.Until(next.Time) - 10*time.Minute)
				tc.meanwhile(m)
				m.sleep(time.Until(next.Time) - time.Second)
				require.Equal(t, tc.running, m.decision("east", machine))
				m.sleep(time.Second + inTime)
				require.Equal(t, v1beta1.DecidedRemediationOverdue, m.decision("east", machine))
				for range 6 {
					m.sleep(10 * time.Minute)
					require.Equal(t, v1beta1.DecidedRemediationOverdue, m.decision("east", machine))
				}
				for _, kind := range []string{"Machine", v1beta1.Kind} {
					require.Equal(t, 1, m.eventsOf(kind, "RemediationOverdue"), "M17.1: once on the %s", kind)
				}
			})
		})
	}
}

// TestRemediationVanishes: a remediator deletes its object 10 s after it has begun, again and again, and the Node stays silent.
// Each time it begins later (spec M12.7). It began at once: the host was switched off every few seconds, without end.
func TestRemediationVanishes(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*machineAPI){"one process": func(*machineAPI) {}, "another process": (*machineAPI).replaceLeader} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withMachines(t, func(t *testing.T, m *machineAPI) {
				c := m.cluster
				machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
				m.addMHC("east", "a", func(mhc *v1beta1.MachineHealthCheck) { mhc.Spec.RemediationTemplate = &c.references()[0] })
				m.setReady("worker-0", corev1.ConditionUnknown)
				m.sleep(30 * time.Second)
				begun, created := time.Now(), []time.Duration(nil)
				for i := range 360 {
					m.sleep(10 * time.Second)
					for _, cr := range c.crs() {
						created = append(created, cr.Created.Sub(begun))
						c.server.Delete("remediator", c.of(cr).crs(), keyOf(cr))
					}
					if i == 60 {
						require.Equal(t, v1alpha1.DecidedVanished, m.decision("east", machine))
						meanwhile(m)
					}
				}
				require.Len(t, created, 5, "in an hour")
				for i := range created[1:] {
					require.GreaterOrEqual(t, created[i+1]-created[i], max(5*time.Minute, created[i]-created[0]))
				}
			})
		})
	}
}

// TestDeletionByOthersIsNotOverdue: what becomes of a Machine that a user deletes is the affair of that user (spec M12.6).
func TestDeletionByOthersIsNotOverdue(t *testing.T) {
	t.Parallel()
	withMachines(t, func(t *testing.T, m *machineAPI) {
		machine := m.addMachine(m.newSet("workers", "worker"), "a", "worker-0")
		m.fates[m.machine(machine).GetUID()].lingers = 2 * time.Hour
		m.addMHC("east", "a", asItIs)
		m.sleep(time.Minute)
		m.server.Delete("user", m.gvr(), machineKey(machine))
		m.sleep(time.Hour)
		require.Equal(t, v1beta1.DecidedMachineDeleting, m.decision("east", machine))
	})
}
