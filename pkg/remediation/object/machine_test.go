// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

var (
	checkOwner      = object.Owner{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: v1beta1.Kind, Namespace: "machines", Name: "workers", UID: "workers-uid"}
	openShiftTarget = object.MachineTarget{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m", UID: "m-uid", Node: "node-1"}
	clusterTarget   = object.MachineTarget{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: "m-uid", Cluster: "here", ControlPlane: true}
)

// TestRenderForMachine: the whole CR (spec M12.2, M12.3).
func TestRenderForMachine(t *testing.T) {
	t.Parallel()
	copied := func(labels, annotations map[string]string) func(*object.Template) {
		return func(t *object.Template) { t.CopiedLabels, t.CopiedAnnotations = labels, annotations }
	}
	const owners = `[
		{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "name": "workers", "uid": "workers-uid", "controller": false},
		{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m", "uid": "m-uid", "controller": false}]`
	const openShiftAnnotations = `"remediation.medik8s.io/node-name": "node-1", "remediation.medik8s.io/template-name": "reboot",
		"machine.openshift.io/cloned-from-name": "reboot", "machine.openshift.io/cloned-from-groupkind": "RebootRemediationTemplate.example.com"`
	tests := map[string]struct {
		target   object.MachineTarget
		template *object.Template
		want     string
	}{
		"M12.2 a worker of OpenShift": {
			target: openShiftTarget, template: reboot(supportsMultiple), // The name is the Machine's all the same.
			want: `{"apiVersion": "example.com/v1", "kind": "RebootRemediation", "spec": {"strategy": "reboot"}, "metadata": {
				"namespace": "machines", "name": "m", "annotations": {` + openShiftAnnotations + `},
				"labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller"}, "ownerReferences": ` + owners + `}}`,
		},
		"M12.2 a control plane Machine of Cluster API without a Node": {
			target: clusterTarget, template: reboot(),
			want: `{"apiVersion": "example.com/v1", "kind": "RebootRemediation", "spec": {"strategy": "reboot"}, "metadata": {
				"namespace": "machines", "name": "m", "annotations": {"remediation.medik8s.io/template-name": "reboot",
					"cluster.x-k8s.io/cloned-from-name": "reboot", "cluster.x-k8s.io/cloned-from-groupkind": "RebootRemediationTemplate.example.com"},
				"labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller", "remediation.medik8s.io/isControlPlaneNode": "", "cluster.x-k8s.io/cluster-name": "here"},
				"ownerReferences": [
					{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "name": "workers", "uid": "workers-uid", "controller": false},
					{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m", "uid": "m-uid", "controller": false}]}}`,
		},
		"M12.2 what the template has is copied, ours wins": {
			target: openShiftTarget,
			template: reboot(copied(
				map[string]string{"a": "b", "app.kubernetes.io/part-of": "x"},
				map[string]string{"c": "d", "machine.openshift.io/cloned-from-name": "x", "remediation.medik8s.io/node-name": "x"})),
			want: `{"apiVersion": "example.com/v1", "kind": "RebootRemediation", "spec": {"strategy": "reboot"}, "metadata": {
				"namespace": "machines", "name": "m", "annotations": {"c": "d", ` + openShiftAnnotations + `},
				"labels": {"a": "b", "app.kubernetes.io/part-of": "node-healthcheck-controller"}, "ownerReferences": ` + owners + `}}`,
		},
		"M12.2 what is ours is not copied where we do not set it": {
			target: object.MachineTarget{APIVersion: openShiftTarget.APIVersion, Kind: "Machine", Name: "m", UID: "m-uid"},
			template: reboot(copied(
				map[string]string{"remediation.medik8s.io/isControlPlaneNode": ""},
				map[string]string{"remediation.medik8s.io/node-name": "another", "remediation.medik8s.io/nhc-timed-out": "2026-01-01T00:00:00Z"})),
			want: `{"apiVersion": "example.com/v1", "kind": "RebootRemediation", "spec": {"strategy": "reboot"}, "metadata": {
				"namespace": "machines", "name": "m", "annotations": {"remediation.medik8s.io/template-name": "reboot",
					"machine.openshift.io/cloned-from-name": "reboot", "machine.openshift.io/cloned-from-groupkind": "RebootRemediationTemplate.example.com"},
				"labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller"}, "ownerReferences": ` + owners + `}}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.template.DeepCopyObject()
			raw := object.RenderForMachine(checkOwner, tc.target, tc.template)
			got, err := json.Marshal(raw)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got))
			require.True(t, object.ParseCR(raw).OwnedBy(checkOwner), "M12.4: it is an own CR")
			spoil(raw.Object)
			require.Equal(t, before, tc.template, "it shares nothing")
		})
	}
}
