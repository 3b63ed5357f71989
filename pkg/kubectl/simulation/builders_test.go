// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	zone         = "zone"
	controlPlane = "node-role.kubernetes.io/control-plane"
)

// node returns a node that is ready since long ago.
func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: labels},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(-time.Hour))}}},
	}
}

func nodes(names ...string) (all []*corev1.Node) {
	for _, name := range names {
		all = append(all, node(name, nil))
	}
	return all
}

// reference returns a reference to a template.
func reference(kind string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "example.com/v1", Kind: kind + "RemediationTemplate", Namespace: "remediators", Name: "default"}
}

// newNHC returns a NodeHealthCheck with one step for nodes that are Ready=Unknown for a minute.
func newNHC(name string, changes ...func(*v1alpha1.NodeHealthCheck)) *v1alpha1.NodeHealthCheck {
	nhc := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeHealthCheckSpec{
		UnhealthyConditions: []v1alpha1.UnhealthyCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Duration: metav1.Duration{Duration: time.Minute}}},
		MaxUnhealthy:        new(intstr.FromString("100%")),
		RemediationTemplate: new(reference("Reboot")),
	}}
	for _, change := range changes {
		change(nhc)
	}
	return nhc
}

// steps has a node escalated through these kinds, each with a timeout.
func steps(timeout time.Duration, kinds ...string) func(*v1alpha1.NodeHealthCheck) {
	return func(nhc *v1alpha1.NodeHealthCheck) {
		nhc.Spec.RemediationTemplate = nil
		for i, kind := range kinds {
			nhc.Spec.EscalatingRemediations = append(nhc.Spec.EscalatingRemediations, v1alpha1.EscalatingRemediation{
				Order: int32(i), RemediationTemplate: reference(kind), Timeout: metav1.Duration{Duration: timeout},
			})
		}
	}
}

// fail has nodes fail after a time.
func fail(after time.Duration, names ...string) (changes []Change) {
	for _, name := range names {
		changes = append(changes, Change{Node: name, After: after})
	}
	return changes
}

// told returns the lines of a result as they are read.
func told(result *Result) (lines []string) {
	for _, line := range result.Timeline {
		text := line.After.Duration.String()
		for _, node := range line.Nodes {
			text += " " + node
		}
		text += " " + string(line.What)
		if line.Why != "" {
			text += ": " + line.Why
		}
		lines = append(lines, text)
	}
	return lines
}
