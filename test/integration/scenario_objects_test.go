// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

// resource returns a client for a resource of the kind.
func (s *scenario) resource(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	if s.kind.clusterScoped {
		return s.dynamic.Resource(gvr)
	}
	return s.dynamic.Resource(gvr).Namespace(s.name)
}

// patch merges a patch into an object.
func (s *scenario) patch(client dynamic.ResourceInterface, name string, patch map[string]any, subresources ...string) {
	s.t.Helper()
	encoded, err := json.Marshal(patch)
	require.NoError(s.t, err)
	_, err = client.Patch(s.t.Context(), name, types.MergePatchType, encoded, metav1.PatchOptions{}, subresources...)
	require.NoError(s.t, err)
}

// patchStatus writes the status of the NodeHealthCheck, as another manager.
func (s *scenario) patchStatus(status any) {
	s.t.Helper()
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name, map[string]any{"status": status}, "status")
}

func metadataPatch(field string, values map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{field: values}}
}

// labelNode sets labels of a node, and removes those that are nil.
func (s *scenario) labelNode(name string, labels map[string]any) {
	s.t.Helper()
	s.patch(s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), s.node(name), metadataPatch("labels", labels))
}

func (s *scenario) deleteNode(name string) {
	s.t.Helper()
	require.NoError(s.t, s.kube.CoreV1().Nodes().Delete(s.t.Context(), s.node(name), metav1.DeleteOptions{}))
}

// report sets the conditions of the CR of a node, as a remediator would: each is
// a type and a status.
func (s *scenario) report(name string, conditions ...[2]string) {
	s.t.Helper()
	list := make([]any, 0, len(conditions))
	for _, condition := range conditions {
		list = append(list, map[string]any{"type": condition[0], "status": condition[1], "reason": "Test"})
	}
	s.patch(s.crClient(), s.node(name), map[string]any{"status": map[string]any{"conditions": list}}, "status")
}

// deleteCR deletes the CR of a node, as somebody else than the controller.
func (s *scenario) deleteCR(name string) {
	s.t.Helper()
	require.NoError(s.t, s.crClient().Delete(s.t.Context(), s.node(name), metav1.DeleteOptions{}))
}

func (s *scenario) deleteTemplate() {
	s.t.Helper()
	require.NoError(s.t, s.resource(s.kind.templates).Delete(s.t.Context(), s.name, metav1.DeleteOptions{}))
}

// deleteNHC deletes the NodeHealthCheck, even during a remediation.
func (s *scenario) deleteNHC() {
	s.t.Helper()
	s.patch(s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)), s.name,
		metadataPatch("annotations", map[string]any{v1alpha1.AnnotationAllowDelete: ""}))
	require.NoError(s.t, s.nhc.RemediationV1alpha1().NodeHealthChecks().Delete(s.t.Context(), s.name, metav1.DeleteOptions{}))
}

// disabled returns condition Disabled.
func (s *scenario) disabled() metav1.Condition {
	s.t.Helper()
	condition := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionDisabled)
	require.NotNil(s.t, condition)
	return *condition
}

// listed returns the nodes in status with the number of their remediations.
func (s *scenario) listed() map[string]int {
	s.t.Helper()
	listed := map[string]int{}
	for _, entry := range s.status().UnhealthyNodes {
		listed[entry.Name[len(s.name)+1:]] = len(entry.Remediations)
	}
	return listed
}

// eventuallyListed waits until status lists these nodes with these numbers of
// remediations, and no others.
func (s *scenario) eventuallyListed(want map[string]int) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("unhealthyNodes with remediations %v", want), func() bool {
		listed := s.listed()
		if len(listed) != len(want) {
			return false
		}
		for name, n := range want {
			if got, ok := listed[name]; !ok || got != n {
				return false
			}
		}
		return true
	})
}

// requireOnly requires that status shows exactly this CR for a node.
func (s *scenario) requireOnly(name string, cr *unstructured.Unstructured) {
	s.t.Helper()
	entry := s.entry(name)
	require.NotNil(s.t, entry)
	require.Len(s.t, entry.Remediations, 1)
	require.Equal(s.t, cr.GetUID(), entry.Remediations[0].Resource.UID)
	require.Equal(s.t, cr.GetCreationTimestamp().UTC(), entry.Remediations[0].Started.UTC())
}

// eventuallyNoneListed waits until status lists no node. In a burst of changes it may be
// written when the last remediation is gone, but not all that comes after it.
func (s *scenario) eventuallyNoneListed() {
	s.t.Helper()
	s.eventually("no node in status", func() bool { return len(s.status().UnhealthyNodes) == 0 })
}

// catchUp returns when the controller has seen all that happened so far to the
// nodes and the CRs of the scenario, and to the NodeHealthCheck. Caches deliver in
// order, so one more remediation, from its beginning to its end, proves it. It needs
// an open gate.
func (s *scenario) catchUp() {
	s.t.Helper()
	const canary = "canary"
	s.createNodes(canary)
	s.fail(canary)
	s.eventuallyCR(canary)
	s.heal(canary)
	s.eventuallyNoCR(canary)
	s.eventually("no entry for the canary", func() bool { return s.entry(canary) == nil })
	observed := *s.status().ObservedNodes
	s.deleteNode(canary)
	s.eventually("the canary is gone", func() bool { return *s.status().ObservedNodes == observed-1 })
}

// catchUpNodes does the same for nodes only, and needs no open gate.
func (s *scenario) catchUpNodes() {
	s.t.Helper()
	const canary = "canary"
	observed := *s.status().ObservedNodes
	s.createNodes(canary)
	s.eventually("the canary is observed", func() bool { return *s.status().ObservedNodes == observed+1 })
	s.deleteNode(canary)
	s.eventually("the canary is gone", func() bool { return *s.status().ObservedNodes == observed })
}

// requests returns those of the controller that want is true for, with all whose effect can be seen.
func (s *scenario) requests(want func(localkube.Request) bool) []localkube.Request {
	s.t.Helper()
	requests, err := s.RequestsWhere(s.begin, func(r *localkube.Request) bool { return r.User == deploy.User && want(*r) })
	require.NoError(s.t, err)
	return requests
}

// crRequests returns the controller's requests of a verb for the CR of a node,
// with whatever result.
func (s *scenario) crRequests(verb, name string) []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Verb == verb && r.Group == s.kind.remediations.Group && r.Resource == s.kind.remediations.Resource && r.Name == s.node(name)
	})
}

// requireRequests requires a number of requests of the controller with a verb for the CR
// of a node.
func (s *scenario) requireRequests(verb, name string, n int, why ...any) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d requests to %s the CR of node %s", n, verb, name), func() bool { return len(s.crRequests(verb, name)) >= n })
	require.Len(s.t, s.crRequests(verb, name), n, why...)
}

// statusWrites returns the requests of the controller to write the status since an instant.
func (s *scenario) statusWrites(since time.Time) []localkube.Request {
	s.t.Helper()
	return s.requests(func(r localkube.Request) bool {
		return r.Resource == v1alpha1.Plural && r.Subresource == "status" && r.Name == s.name && r.Time.After(since)
	})
}

// requireEvents requires a number of events with this reason about an object. Events come
// a moment after the action.
func (s *scenario) requireEvents(kind, name, reason string, n int, why ...any) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d events %s about %s", n, reason, name), func() bool { return len(s.eventsAbout(kind, name, reason)) >= n })
	require.Len(s.t, s.eventsAbout(kind, name, reason), n, why...)
}

// requireTimedOut requires that a CR was told to stop, at a time in the usual form.
func (s *scenario) requireTimedOut(cr *unstructured.Unstructured) {
	s.t.Helper()
	value := cr.GetAnnotations()[v1alpha1.AnnotationTimedOut]
	at, err := time.Parse(time.RFC3339, value)
	require.NoError(s.t, err, "13.8: RFC 3339")
	require.Equal(s.t, value, at.UTC().Format(time.RFC3339), "13.8: in UTC, whole seconds")
}

// eventuallyTimedOut waits until the CR of a node was told to stop.
func (s *scenario) eventuallyTimedOut(name string) *unstructured.Unstructured {
	s.t.Helper()
	var cr *unstructured.Unstructured
	s.eventually("nhc-timed-out on the CR of node "+name, func() bool {
		if cr = s.cr(name); cr == nil {
			return false
		}
		_, marked := cr.GetAnnotations()[v1alpha1.AnnotationTimedOut]
		return marked
	})
	s.requireTimedOut(cr)
	return cr
}

const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// hold is the finalizer of a remediator that has not finished.
const hold = "test.nhc-controller.io/hold"
