// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// TestUpgradeFromUpstream starts the controller in a cluster in which the upstream
// operator has worked until a moment ago, in the middle of remediations (spec 1.1,
// 1.4, 18.2, 18.5).
func TestUpgradeFromUpstream(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	s := newScenario(t, c)
	s.createNodes("generated", "named", "well", "waiting")
	// What upstream gives a random name to is of a template that supports it.
	s.patch(s.resource(s.kind.templates), s.name, metadataPatch("annotations", map[string]any{v1alpha1.AnnotationMultipleTemplates: ""}))
	nhc, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Create(t.Context(), s.spec(), metav1.CreateOptions{FieldManager: "manager"})
	require.NoError(t, err)
	for _, name := range []string{"generated", "named", "waiting"} {
		s.setCondition(name, corev1.NodeReady, corev1.ConditionUnknown, time.Now().Add(-time.Minute))
	}
	generated := s.createUpstreamCR(nhc, "generated", true)
	named := s.createUpstreamCR(nhc, "named", false)
	require.NotEqual(t, s.node("generated"), generated.GetName())

	// The names of the fields are those of the API, the values those of upstream.
	old := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	entry := func(cr *unstructured.Unstructured) v1alpha1.Remediation {
		return v1alpha1.Remediation{
			Resource: corev1.ObjectReference{APIVersion: cr.GetAPIVersion(), Kind: cr.GetKind(), Namespace: cr.GetNamespace(), Name: cr.GetName(), UID: cr.GetUID()},
			Started:  old, TemplateName: s.name,
		}
	}
	nhc.Status = v1alpha1.NodeHealthCheckStatus{
		ObservedNodes: new(int32(7)), HealthyNodes: new(int32(7)),
		InFlightRemediations: map[string]metav1.Time{s.node("named"): old, s.node("gone"): old},
		UnhealthyNodes: []v1alpha1.UnhealthyNode{
			{Name: s.node("well"), ConditionsHealthyTimestamp: &old, HealthyDelayed: new(true)},
			{Name: s.node("gone"), Remediations: []v1alpha1.Remediation{{
				Resource: corev1.ObjectReference{APIVersion: generated.GetAPIVersion(), Kind: generated.GetKind(), Namespace: s.name, Name: s.node("gone"), UID: "gone"},
				Started:  old,
			}}},
			{Name: s.node("generated"), Remediations: []v1alpha1.Remediation{entry(generated)}},
		},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionDisabled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonEnabled, Message: v1alpha1.MessageEnabled, LastTransitionTime: old},
			{Type: "StormActive", Status: metav1.ConditionTrue, Reason: "HealthyNodeThresholdChange", LastTransitionTime: old},
		},
		StormRecoveryActive: new(true), StormRecoveryStartTime: &old,
		Phase: v1alpha1.PhaseRemediating, Reason: "NHC is remediating 2 nodes", LastUpdateTime: &old,
	}
	// The CRD of upstream has a map where ours has an atomic list, and so have managedFields.
	s.setListType(`{"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"]}`)
	s.eventually("fields of entries are managed", func() bool {
		// Who wrote a list as a whole, before the API server noticed, would manage it as a whole
		// until it changes.
		entries := nhc.Status.UnhealthyNodes
		for _, list := range [][]v1alpha1.UnhealthyNode{nil, entries} {
			nhc.Status.UnhealthyNodes = list
			written, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().UpdateStatus(t.Context(), nhc, metav1.UpdateOptions{FieldManager: "manager"})
			require.NoError(t, err)
			nhc.ResourceVersion, nhc.ManagedFields = written.ResourceVersion, written.ManagedFields
		}
		return managesEntries(nhc)
	})
	s.setListType(`{"x-kubernetes-list-type":"atomic","x-kubernetes-list-map-keys":null}`)

	controller := c.startController(t, "successor")
	s.eventuallyListed(map[string]int{"generated": 1, "named": 1, "waiting": 1})
	waiting := s.entry("waiting").Remediations[0].Resource.Name
	require.Equal(t, s.node("waiting"), waiting[:len(waiting)-9], "11.1: a hash after the name")
	s.eventuallyCounts(4, 1)
	status := s.status()
	require.Empty(t, status.InFlightRemediations, "18.5")
	require.Nil(t, status.StormRecoveryActive, "9.10")
	require.Nil(t, status.StormRecoveryStartTime, "9.10")
	require.Empty(t, s.condition(v1alpha1.ConditionStormActive), "9.10")
	require.Equal(t, old.UTC(), s.disabled().LastTransitionTime.UTC(), "6.3: nothing has flipped")
	require.Equal(t, v1alpha1.PhaseRemediating, status.Phase)
	require.Equal(t, "NHC is remediating 3 nodes", status.Reason)
	for name, cr := range map[string]*unstructured.Unstructured{"generated": generated, "named": named} {
		recorded := s.entry(name)
		require.Nil(t, recorded.ConditionsHealthyTimestamp)
		require.Equal(t, cr.GetUID(), recorded.Remediations[0].Resource.UID, name)
		require.Equal(t, cr.GetName(), recorded.Remediations[0].Resource.Name, name)
		require.Equal(t, cr.GetCreationTimestamp().UTC(), recorded.Remediations[0].Started.UTC(), "18.3: truth, not what was written")
		live, err := s.crClient().Get(t.Context(), cr.GetName(), metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, cr.GetResourceVersion(), live.GetResourceVersion(), "11.2: nothing was written to the CR")
	}
	require.Len(t, s.crs(), 3, "no second CR for any node")
	require.Empty(t, s.eventsAbout("Node", s.node("generated"), "DetectedUnhealthy"), "19.1: status had it")

	// All is as after any other remediation.
	for _, name := range []string{"generated", "named", "waiting"} {
		s.heal(name)
	}
	s.eventually("no CRs", func() bool { return len(s.crs()) == 0 })
	s.eventuallyCounts(4, 4)
	s.eventuallyNoneListed()
	require.Len(t, s.creations(), 1)
	require.Empty(t, s.requests(func(r localkube.Request) bool {
		return r.Resource == s.kind.remediations.Resource && (r.Verb == "patch" || r.Verb == "update")
	}))
	live, err := s.nhc.RemediationV1alpha1().NodeHealthChecks().Get(t.Context(), s.name, metav1.GetOptions{})
	require.NoError(t, err)
	require.False(t, managesEntries(live), "the list is replaced as a whole")
	s.eventuallyEvent("RemediationRemoved", "Deleted remediation CR of kind PowerCycleRemediation with name "+generated.GetName())
	requireRunning(t, controller)
}

// setListType changes what the CRD says of the list of unhealthy nodes.
func (s *scenario) setListType(change string) {
	s.t.Helper()
	crds := s.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	crd, err := crds.Get(s.t.Context(), "nodehealthchecks.remediation.medik8s.io", metav1.GetOptions{})
	require.NoError(s.t, err)
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	path := []string{"schema", "openAPIV3Schema", "properties", "status", "properties", "unhealthyNodes"}
	list, found, err := unstructured.NestedMap(versions[0].(map[string]any), path...)
	require.NoError(s.t, err)
	require.True(s.t, found)
	require.NoError(s.t, json.Unmarshal([]byte(change), &list))
	require.NoError(s.t, unstructured.SetNestedMap(versions[0].(map[string]any), list, path...))
	require.NoError(s.t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	_, err = crds.Update(s.t.Context(), crd, metav1.UpdateOptions{})
	require.NoError(s.t, err)
}

// managesEntries reports whether managedFields name the unhealthy nodes.
func managesEntries(nhc *v1alpha1.NodeHealthCheck) bool {
	return slices.ContainsFunc(nhc.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.String(), `k:{\"name\"`)
	})
}

// createUpstreamCR creates a CR as upstream does.
func (s *scenario) createUpstreamCR(nhc *v1alpha1.NodeHealthCheck, node string, generated bool) *unstructured.Unstructured {
	s.t.Helper()
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"offSeconds": int64(1)}}}
	cr.SetGroupVersionKind(s.kind.remediations.GroupVersion().WithKind(s.kind.name))
	cr.SetAnnotations(map[string]string{v1alpha1.AnnotationNodeName: s.node(node), v1alpha1.AnnotationTemplateName: s.name})
	if generated {
		cr.SetGenerateName(s.node(node) + "-")
	} else {
		cr.SetName(s.node(node))
	}
	cr.SetLabels(map[string]string{v1alpha1.LabelPartOf: v1alpha1.PartOf})
	cr.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.Kind, Name: nhc.Name, UID: nhc.UID, Controller: new(false),
	}})
	cr, err := s.crClient().Create(s.t.Context(), cr, metav1.CreateOptions{FieldManager: "manager"})
	require.NoError(s.t, err)
	return cr
}
