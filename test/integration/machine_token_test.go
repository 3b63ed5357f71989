// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

const (
	asksForRemediation  = "host.metal3.io/external-remediation"
	remediationStrategy = "machine.openshift.io/remediation-strategy"
	controlPlaneOfCAPI  = "cluster.x-k8s.io/control-plane"
)

// clusterAPIMachineV1beta1 is the earlier version of the kind.
var clusterAPIMachineV1beta1 = optionalKind{
	kind: clusterAPIMachine.kind, file: clusterAPIMachine.file,
	resource: clusterAPIMachine.resource.GroupResource().WithVersion("v1beta1"),
}

// machineThief is somebody who has the token of the controller, and Machines of one API.
type machineThief struct {
	*testing.T
	*cluster
	kind         optionalKind
	thief, admin dynamic.ResourceInterface
}

// TestStolenTokenAndMachines: its token cannot do with Machines what the controller does not do
// with them, also if it was made an admin by mistake (spec M20.3).
func TestStolenTokenAndMachines(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.createNamespaces(t, machineNamespace)
	c.installOptional(t, openShiftMachine, clusterAPIMachine)
	c.applyOverlay(t, ownOverlay)
	c.makeAdmin(t)
	config, err := c.ServiceAccountConfig(t.Context(), deploy.Namespace, deploy.ServiceAccount)
	require.NoError(t, err)
	thief, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	for _, kind := range []optionalKind{openShiftMachine, clusterAPIMachineV1beta1, clusterAPIMachine} {
		t.Run(kind.resource.GroupVersion().String(), func(t *testing.T) {
			m := &machineThief{
				T: t, cluster: c, kind: kind,
				thief: thief.Resource(kind.resource).Namespace(machineNamespace),
				admin: c.dynamic.Resource(kind.resource).Namespace(machineNamespace),
			}
			victim := m.createMachine("victim", nil, owner(true))
			m.createMachine("asked", map[string]any{"annotations": map[string]any{
				asksForRemediation: "", remediationStrategy: "external-baremetal", "remediation.metal3.io/powered-off-for-remediation": "",
			}}, owner(true))
			patience.Eventually(t, "the policy is in force, and the permission there", func() bool {
				err := m.patch(m.thief, victim.GetName(), types.MergePatchType, metadataPatch("labels", map[string]any{"a": "b"}))
				return err != nil && !apierrors.IsForbidden(m.patch(m.thief, victim.GetName(), types.MergePatchType, map[string]any{}))
			})
			m.testDeletions()
			m.testChanges()
			m.testPermitted()
			require.NoError(t, m.admin.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}), "by others")
		})
	}
}

// owner is a MachineSet that is the controller of a Machine, or only one of its owners. Its kind is
// not served, so that it is not found to be gone.
func owner(controller bool) metav1.OwnerReference {
	reference := metav1.OwnerReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "pool", UID: "1"}
	if controller {
		reference.Controller = new(true)
	}
	return reference
}

func (m *machineThief) createMachine(name string, metadata map[string]any, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	m.Helper()
	machine := m.machine(name, metadata, owners...)
	machine.Object["status"] = map[string]any{"phase": "Running"}
	return m.createOptional(m.T, m.kind, machineNamespace, name, machine.Object)
}

// machine returns a Machine with what both APIs require.
func (m *machineThief) machine(name string, metadata map[string]any, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	machine := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
	if metadata == nil {
		machine.Object = map[string]any{}
	}
	machine.SetGroupVersionKind(m.kind.resource.GroupVersion().WithKind(m.kind.kind))
	machine.SetName(name)
	machine.SetOwnerReferences(owners)
	machine.Object["spec"] = map[string]any{"providerID": "test:///" + name}
	if m.kind.resource.Group == clusterAPIMachine.resource.Group {
		machine.Object["spec"] = map[string]any{
			"clusterName": "self", "bootstrap": map[string]any{"dataSecretName": "bootstrap"}, "providerID": "test:///" + name,
			"infrastructureRef": map[string]any{"kind": "TestMachine", "name": name, "apiGroup": "example.com"},
		}
	}
	return machine
}

// patch patches a Machine as a dry run, which admission sees like any other write.
func (m *machineThief) patch(who dynamic.ResourceInterface, name string, patchType types.PatchType, patch any, subresources ...string) error {
	m.Helper()
	encoded, err := json.Marshal(patch)
	require.NoError(m, err)
	_, err = who.Patch(m.Context(), name, patchType, encoded, metav1.PatchOptions{DryRun: dryRun, FieldManager: "thief"}, subresources...)
	return err
}

func (m *machineThief) requireRefused(what string, err error, rule string) {
	m.Helper()
	require.Error(m, err, what)
	require.True(m, apierrors.IsForbidden(err), "%s: %v", what, err)
	require.ErrorContains(m, err, "ValidatingAdmissionPolicy '"+machinePolicy+"' with binding '"+machinePolicy+"' denied request: nhc-controller may "+rule, what)
}

// testDeletions: only a Machine that somebody replaces, and none of the control plane of Cluster
// API, whose provider asks etcd first.
func (m *machineThief) testDeletions() {
	const (
		orphan       = "not delete a machine that no controller owns"
		controlPlane = "not delete a machine of a control plane of Cluster API"
	)
	other := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Host", Name: "a", UID: "2"}
	notController := other
	notController.Controller = new(false)
	isCAPI := m.kind.resource.Group == clusterAPIMachine.resource.Group
	labels := func(key, value string) map[string]any {
		return map[string]any{"labels": map[string]any{key: value}}
	}
	for name, tc := range map[string]struct {
		metadata map[string]any
		owners   []metav1.OwnerReference
		rule     string
		capi     string // The rule for Cluster API, if it is another one.
	}{
		"owned":               {owners: []metav1.OwnerReference{owner(true)}},
		"owned-by-the-second": {owners: []metav1.OwnerReference{other, owner(true)}},
		"worker":              {metadata: labels("machine.openshift.io/cluster-api-machine-role", "worker"), owners: []metav1.OwnerReference{owner(true)}},
		"orphan":              {rule: orphan},
		"no-controller":       {owners: []metav1.OwnerReference{owner(false)}, rule: orphan},
		"not-the-controller": {
			owners: []metav1.OwnerReference{notController}, rule: orphan,
		},
		"control-plane":            {metadata: labels(controlPlaneOfCAPI, ""), owners: []metav1.OwnerReference{owner(true)}, capi: controlPlane},
		"control-plane-with-value": {metadata: labels(controlPlaneOfCAPI, "true"), owners: []metav1.OwnerReference{owner(true)}, capi: controlPlane},
		"master":                   {metadata: labels("machine.openshift.io/cluster-api-machine-role", "master"), owners: []metav1.OwnerReference{owner(true)}, capi: controlPlane},
		"orphan-of-control-plane":  {metadata: labels(controlPlaneOfCAPI, ""), rule: orphan},
	} {
		created := m.createMachine(name, tc.metadata, tc.owners...)
		uid, version := created.GetUID(), created.GetResourceVersion()
		options := metav1.DeleteOptions{DryRun: dryRun, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
		err := m.thief.Delete(m.Context(), name, options)
		switch {
		case isCAPI && tc.capi != "":
			m.requireRefused(name, err, tc.capi)
		case tc.rule != "":
			m.requireRefused(name, err, tc.rule)
		default:
			require.NoError(m, err, name)
		}
		require.NoError(m, m.admin.Delete(m.Context(), name, options), "by others")
	}
	err := m.thief.DeleteCollection(m.Context(), metav1.DeleteOptions{DryRun: dryRun}, metav1.ListOptions{})
	require.True(m, apierrors.IsForbidden(err), "%v", err)
}

// changesOfMachines are forbidden changes with the token, and which rule forbids them.
func changesOfMachines() map[string]struct {
	machine string
	patch   map[string]any
	rule    string
} {
	const (
		keys   = "only add annotation host.metal3.io/external-remediation to a machine, and change annotation machine.openshift.io/remediation-strategy"
		victim = "victim"
		asked  = "asked"
	)
	annotations := func(values map[string]any) map[string]any { return metadataPatch("annotations", values) }
	metadata := func(values map[string]any) map[string]any { return map[string]any{"metadata": values} }
	return map[string]struct {
		machine string
		patch   map[string]any
		rule    string
	}{
		"end an external remediation":         {asked, annotations(map[string]any{asksForRemediation: nil}), keys},
		"change the request for it":           {asked, annotations(map[string]any{asksForRemediation: "later"}), keys},
		"remove all annotations":              {asked, metadata(map[string]any{"annotations": nil}), keys},
		"say that it is off":                  {victim, annotations(map[string]any{"remediation.metal3.io/powered-off-for-remediation": ""}), keys},
		"say that it is on":                   {asked, annotations(map[string]any{"remediation.metal3.io/powered-off-for-remediation": nil}), keys},
		"change what others say":              {asked, annotations(map[string]any{"remediation.metal3.io/powered-off-for-remediation": "a"}), keys},
		"pause":                               {victim, annotations(map[string]any{"cluster.x-k8s.io/paused": ""}), keys},
		"exclude":                             {victim, annotations(map[string]any{"cluster.x-k8s.io/skip-remediation": ""}), keys},
		"have the autoscaler take it":         {victim, annotations(map[string]any{"cluster.x-k8s.io/delete-machine": "yes"}), keys},
		"make it a control plane machine":     {victim, metadataPatch("labels", map[string]any{controlPlaneOfCAPI: ""}), "not change labels of a machine"},
		"hold it":                             {victim, metadata(map[string]any{"finalizers": []string{"example.com/hold"}}), "not change finalizers of a machine"},
		"give it another owner":               {victim, metadata(map[string]any{"ownerReferences": []metav1.OwnerReference{owner(false)}}), "not change owners of a machine"},
		"remove the owners":                   {victim, metadata(map[string]any{"ownerReferences": nil}), "not change owners of a machine"},
		"name another instance":               {victim, map[string]any{"spec": map[string]any{"providerID": "aws:///zone/i-0"}}, "not change the spec of a machine"},
		"a change under cover of a permitted": {victim, map[string]any{"metadata": map[string]any{"annotations": map[string]any{asksForRemediation: ""}}, "spec": map[string]any{"providerID": "a:///b"}}, "not change the spec of a machine"},
	}
}

// testChanges: the policy refuses what RBAC cannot tell apart. Others may do it.
func (m *machineThief) testChanges() {
	const never = "not create or connect to machines, nor write their subresources"
	for what, attempt := range changesOfMachines() {
		m.requireRefused(what, m.patch(m.thief, attempt.machine, types.MergePatchType, attempt.patch), attempt.rule)
		require.NoError(m, m.patch(m.admin, attempt.machine, types.MergePatchType, attempt.patch), what)
	}
	m.requireRefused("by another kind of patch", m.patch(m.thief, "asked", types.JSONPatchType, []any{
		map[string]any{"op": "remove", "path": "/metadata/annotations/host.metal3.io~1external-remediation"},
	}), "only add annotation")
	phase := map[string]any{"status": map[string]any{"phase": "Failed"}}
	m.requireRefused("fail it", m.patch(m.thief, "victim", types.MergePatchType, phase, "status"), never)
	_, err := m.thief.Create(m.Context(), m.machine("ghost", nil, owner(true)), metav1.CreateOptions{DryRun: dryRun})
	m.requireRefused("create a machine", err, never)
	victim, err := m.thief.Get(m.Context(), "victim", metav1.GetOptions{})
	require.NoError(m, err)
	victim.SetLabels(map[string]string{"a": "b"})
	_, err = m.thief.Update(m.Context(), victim, metav1.UpdateOptions{DryRun: dryRun})
	m.requireRefused("replace it", err, "not change labels of a machine")
}

// testPermitted: what the controller does, in every form that a patch can have.
func (m *machineThief) testPermitted() {
	both := map[string]any{asksForRemediation: "", remediationStrategy: "external-baremetal"}
	require.NoError(m, m.patch(m.thief, "victim", types.MergePatchType, metadataPatch("annotations", both)))
	require.NoError(m, m.patch(m.thief, "victim", types.JSONPatchType, []any{map[string]any{"op": "add", "path": "/metadata/annotations", "value": both}}))
	require.NoError(m, m.patch(m.thief, "victim", types.MergePatchType, map[string]any{}), "nothing at all")
	require.NoError(m, m.patch(m.thief, "asked", types.MergePatchType, metadataPatch("annotations", both)), "once more")
	require.NoError(m, m.patch(m.thief, "asked", types.MergePatchType, metadataPatch("annotations", map[string]any{remediationStrategy: nil})))

	victim, err := m.admin.Get(m.Context(), "victim", metav1.GetOptions{})
	require.NoError(m, err)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": victim.GetUID(), "annotations": both}})
	require.NoError(m, err)
	patched, err := m.thief.Patch(m.Context(), "victim", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(m, err, "bound to the uid")
	require.Equal(m, map[string]string{asksForRemediation: "", remediationStrategy: "external-baremetal"}, patched.GetAnnotations())
	require.Equal(m, victim.Object["spec"], patched.Object["spec"])
	require.Equal(m, victim.Object["status"], patched.Object["status"])
	uid := victim.GetUID()
	require.NoError(m, m.thief.Delete(m.Context(), "victim", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
}
