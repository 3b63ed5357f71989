// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// newNHC returns a NodeHealthCheck of some pools with an open gate.
func newNHC(name string, selected []string, change ...func(*v1alpha1.NodeHealthCheckSpec)) *v1alpha1.NodeHealthCheck {
	nhc := &v1alpha1.NodeHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeHealthCheckSpec{
			Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: poolLabel, Operator: metav1.LabelSelectorOpIn, Values: selected},
			}},
			MinHealthy:          new(intstr.FromInt32(0)),
			UnhealthyConditions: unhealthyAfter(300 * time.Millisecond),
			RemediationTemplate: new(templates[4].reference()),
		},
	}
	for _, c := range change {
		c(&nhc.Spec)
	}
	return nhc
}

func unhealthyAfter(d time.Duration) []v1alpha1.UnhealthyCondition {
	return []v1alpha1.UnhealthyCondition{
		{Type: corev1.NodeReady, Status: "False", Duration: metav1.Duration{Duration: d}},
		{Type: corev1.NodeReady, Status: "Unknown", Duration: metav1.Duration{Duration: 2 * d}},
		{Type: brokenDisk, Status: "True", Duration: metav1.Duration{Duration: d}},
	}
}

// laddered has a NodeHealthCheck escalate, with steps in another order than their ranks.
func laddered(spec *v1alpha1.NodeHealthCheckSpec) {
	spec.RemediationTemplate = nil
	for _, rank := range []struct {
		order int32
		of    template
	}{{30, templates[2]}, {10, templates[0]}, {20, templates[1]}} {
		spec.EscalatingRemediations = append(spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
			Order: rank.order, RemediationTemplate: rank.of.reference(), Timeout: metav1.Duration{Duration: time.Minute},
		})
	}
}

func withTemplate(t template) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = new(t.reference()) }
}

func withMinHealthy(value string) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.MinHealthy = new(intstr.Parse(value)) }
}

func withMaxUnhealthy(value string) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.MinHealthy, spec.MaxUnhealthy = nil, new(intstr.Parse(value))
	}
}

func withStorm(threshold int32, cooldown time.Duration) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.StormRecoveryThreshold, spec.StormCooldownDuration = &threshold, &metav1.Duration{Duration: cooldown}
	}
}

func withDelay(d time.Duration) func(*v1alpha1.NodeHealthCheckSpec) {
	return func(spec *v1alpha1.NodeHealthCheckSpec) { spec.HealthyDelay = &metav1.Duration{Duration: d} }
}

// usualNHCs are a classic one, an escalating one, one with storm recovery and a delay,
// and one that overlaps with the others.
func usualNHCs() []*v1alpha1.NodeHealthCheck {
	return []*v1alpha1.NodeHealthCheck{
		newNHC("classic", pools[:1], withMinHealthy("51%")),
		newNHC("ladder", pools[1:2], laddered, withMaxUnhealthy("70%")),
		newNHC("stormy", pools[2:], withTemplate(templates[3]), withMinHealthy("40%"), withStorm(2, 3*time.Second), withDelay(4*time.Second)),
		newNHC("overlapping", pools[:2], withTemplate(templates[2]), withMinHealthy("30%")),
	}
}

// createNHCs creates NodeHealthChecks, and waits until each was synced once.
func (e *environment) createNHCs(nhcs ...*v1alpha1.NodeHealthCheck) {
	e.t.Helper()
	for _, nhc := range nhcs {
		_, err := e.nhc.RemediationV1alpha1().NodeHealthChecks().Create(e.t.Context(), nhc, metav1.CreateOptions{FieldManager: loader})
		require.NoError(e.t, err)
	}
	patience.Eventually(e.t, "the NodeHealthChecks have a phase", func() bool {
		list, err := e.nhc.RemediationV1alpha1().NodeHealthChecks().List(e.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range list.Items {
			if list.Items[i].Status.Phase == "" {
				return false
			}
		}
		return true
	})
}

// changeNHC merges a patch into the spec of a NodeHealthCheck.
func (e *environment) changeNHC(ctx context.Context, name string, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	_, err = e.nhc.RemediationV1alpha1().NodeHealthChecks().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: loader})
	return err
}

// calm takes away all that keeps remediations from beginning or ending: what load and
// faults have done.
func (e *environment) calm() {
	e.t.Helper()
	e.referee.Remark("calm")
	e.remediators.release()
	require.NoError(e.t, e.createTemplates(e.t.Context()))
	list, err := e.nhc.RemediationV1alpha1().NodeHealthChecks().List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	for i := range list.Items {
		require.NoError(e.t, e.changeNHC(e.t.Context(), list.Items[i].Name, map[string]any{
			"pauseRequests": nil, "minHealthy": 0, "maxUnhealthy": nil, "healthyDelay": nil, "stormRecoveryThreshold": nil,
		}))
	}
	e.calmMachines()
}

// nhcNames returns the NodeHealthChecks that exist.
func (e *environment) nhcNames(ctx context.Context) ([]string, error) {
	list, err := e.nhc.RemediationV1alpha1().NodeHealthChecks().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}
