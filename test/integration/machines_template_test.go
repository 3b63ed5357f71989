// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
)

// fromTemplate has Machines remediated by objects of the demo remediator.
func fromTemplate(check *v1beta1.MachineHealthCheck) {
	check.Spec.RemediationTemplate = &corev1.ObjectReference{
		APIVersion: powerCycle.templates.GroupVersion().String(), Kind: powerCycle.templateName(), Name: "reboot", Namespace: "ignored",
	}
}

// createTemplate creates the template that fromTemplate names.
func (s *machineScenario) createTemplate() {
	s.t.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"copied": "yes", "app.kubernetes.io/part-of": "ours-wins"}},
		"spec":     map[string]any{"offSeconds": int64(1)},
	}}}}
	template.SetGroupVersionKind(powerCycle.templates.GroupVersion().WithKind(powerCycle.templateName()))
	template.SetName("reboot")
	_, err := s.dynamic.Resource(powerCycle.templates).Namespace(s.name).Create(s.t.Context(), template, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// remediation returns the remediation object of a Machine, nil if there is none.
func (s *machineScenario) remediation(machine string) *unstructured.Unstructured {
	s.t.Helper()
	cr, err := s.dynamic.Resource(powerCycle.remediations).Namespace(s.name).Get(s.t.Context(), machine, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return cr
}

// testMachineTemplate: an unhealthy Machine gets a remediation object, and loses it when it has
// recovered (spec M12).
func testMachineTemplate(t *testing.T, s *machineScenario) {
	machine := s.createMachine("a")
	s.createMachine("b")
	s.join("a", "b")
	check := s.createCheck(fromTemplate)
	s.setReady("a", corev1.ConditionUnknown)
	require.Contains(t, s.eventuallyDecided("a", "TemplateUnavailable").Decision.Message, `failed to retrieve PowerCycleRemediationTemplate external object "`+s.name+`"/"reboot"`)
	s.eventually("the condition says so", func() bool {
		return hasMachineCondition(s.status(), "ExternalRemediationTemplateAvailable", corev1.ConditionFalse)
	})
	s.createTemplate()

	s.eventuallyDecided("a", "StepRunning")
	cr := s.remediation("a")
	require.Equal(t, []metav1.OwnerReference{
		{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineHealthCheck", Name: s.name, UID: check.UID, Controller: new(false)},
		{APIVersion: s.api.machine.resource.GroupVersion().String(), Kind: "Machine", Name: "a", UID: machine.GetUID(), Controller: new(false)},
	}, cr.GetOwnerReferences(), "M12.3")
	require.Equal(t, map[string]string{
		"remediation.medik8s.io/node-name": s.nodeName("a"), "remediation.medik8s.io/template-name": "reboot",
		s.api.group() + "/cloned-from-name": "reboot", s.api.group() + "/cloned-from-groupkind": "PowerCycleRemediationTemplate." + powerCycle.templates.Group,
	}, cr.GetAnnotations(), "M12.2")
	require.Equal(t, "node-healthcheck-controller", cr.GetLabels()["app.kubernetes.io/part-of"])
	lease, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(t.Context(), "node-"+s.nodeName("a"), metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "MachineHealthCheck-"+s.name+"/"+s.name, *lease.Spec.HolderIdentity, "M2")
	require.False(t, hasMachineCondition(s.status(), "ExternalRemediationTemplateAvailable", corev1.ConditionFalse), "M12.1: it goes with its cause")
	s.eventuallyEvent("Machine", "a", "RemediationCreated", "[remediation] Created remediation object for machine a with node "+s.nodeName("a"))

	s.setReady("a", corev1.ConditionTrue)
	s.eventually("the remediation object is gone", func() bool { return s.remediation("a") == nil })
	s.eventuallyCounts(2, 2)
	s.eventually("the lease is released", func() bool {
		_, err := s.kube.CoordinationV1().Leases("medik8s-leases").Get(t.Context(), "node-"+s.nodeName("a"), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	require.Empty(t, s.deleteRequests(""))

	// A paused MachineHealthCheck begins nothing and ends what runs (M8.1), as does its deletion (M3.5).
	s.setReady("a", corev1.ConditionUnknown)
	s.setReady("b", corev1.ConditionUnknown)
	s.eventuallyDecided("a", "StepRunning")
	s.eventuallyDecided("b", "StepRunning")
	s.updateCheck(annotated(v1beta1.AnnotationPaused, ""))
	s.setReady("a", corev1.ConditionTrue)
	s.eventually("the remediation object is gone in a pause", func() bool { return s.remediation("a") == nil })
	require.NotNil(t, s.remediation("b"))
	require.NoError(t, s.mhcs().Delete(t.Context(), s.name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
	s.eventually("the remediation object goes with its MachineHealthCheck", func() bool { return s.remediation("b") == nil })
}
