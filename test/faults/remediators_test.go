// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestRemediators has remediators misbehave: all tests have those that hang, lie and
// delete what is not theirs. Here permissions are taken away, admission refuses CRs,
// templates and kinds vanish, and all of it comes back while the load goes on.
func TestRemediators(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		w := newWorld(t, seed)
		w.startAlone(nil)
		l := w.usualLoad()
		if *longForm {
			w.testGoing()
		}
		run := func() { l.run(t.Context(), lasting(time.Second, 8*time.Second)) }
		for range numberOf(1, 3) {
			run()
			give := w.takePermission(kindNames[1])
			run()
			give()
			allow := w.denyCreation(kindNames[0])
			run()
			allow()
			w.removeTemplates()
			run()
			w.requireNone(w.referee.Settled(t.Context(), patience)) // Disabled, and what runs finishes.
			require.NoError(t, w.createTemplates(t.Context()))
			install := w.removeKind(kindNames[2])
			run()
			install()
			run()
			w.requireOrder()
		}
		w.requireSettled()
		w.requireSeen(5, 3)
	})
}

// testGoing has somebody delete the CRs of both steps of a node, of which the second one
// is held by its remediator. Nothing new may begin before that is gone (P9).
func (w *world) testGoing() {
	w.t.Helper()
	w.staff.rest(true)
	defer w.staff.rest(false)
	const i = 4 // In the pool of the ladder.
	// Nobody else wants the node.
	require.NoError(w.t, w.changeNHC(w.t.Context(), "overlapping", map[string]any{"pauseRequests": []string{"test"}}))
	defer func() {
		require.NoError(w.t, w.changeNHC(w.t.Context(), "overlapping", map[string]any{"pauseRequests": nil}))
	}()
	time.Sleep(outOfSight)
	w.fail(i)
	first := w.eventuallyCR(kindNames[0], nodeName(i))
	// No step ends during a pause, whatever its remediator says.
	require.NoError(w.t, w.changeNHC(w.t.Context(), "ladder", map[string]any{"pauseRequests": []string{"test"}}))
	time.Sleep(outOfAnySight)
	w.staff.report(w.t.Context(), remediationsOf(kindNames[0]), first, conditions("False"))
	time.Sleep(time.Second)
	require.NoError(w.t, w.changeNHC(w.t.Context(), "ladder", map[string]any{"pauseRequests": nil}))
	second := w.eventuallyCR(kindNames[1], nodeName(i))
	require.True(w.t, w.staff.finalizers(w.t.Context(), remediationsOf(kindNames[1]), second, finalizer))
	require.NoError(w.t, w.changeNHC(w.t.Context(), "ladder", map[string]any{"pauseRequests": []string{"test"}}))
	w.referee.Fault("somebody deletes the CRs of node %s", nodeName(i))
	for kind, cr := range map[string]*unstructured.Unstructured{kindNames[0]: first, kindNames[1]: second} {
		require.NoError(w.t, w.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).Delete(w.t.Context(), cr.GetName(), metav1.DeleteOptions{}))
	}
	// Who has not waited for it goes on as soon as it may.
	time.Sleep(outOfAnySight)
	require.NoError(w.t, w.changeNHC(w.t.Context(), "ladder", map[string]any{"pauseRequests": nil}))
	time.Sleep(time.Second)
	require.True(w.t, w.staff.finalizers(w.t.Context(), remediationsOf(kindNames[1]), second))
}

// eventuallyCR waits until there is a CR of a kind for a node.
func (w *world) eventuallyCR(kind, node string) *unstructured.Unstructured {
	w.t.Helper()
	var found *unstructured.Unstructured
	w.eventually("a "+kind+" for node "+node, func() bool {
		list, err := w.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range list.Items {
			if list.Items[i].GetAnnotations()[v1alpha1.AnnotationNodeName] == node {
				found = &list.Items[i]
			}
		}
		return found != nil
	})
	return found
}

// takePermission takes the permissions for a kind away. The API server fills the
// aggregated role.
func (w *world) takePermission(kind string) (give func()) {
	w.t.Helper()
	w.referee.Fault("no permission for %s", kind)
	require.NoError(w.t, w.kube.RbacV1().ClusterRoles().Delete(w.t.Context(), "faults-"+strings.ToLower(kind), metav1.DeleteOptions{}))
	return func() {
		w.t.Helper()
		w.referee.Remark("permission for %s again", kind)
		_, err := w.KubectlInput(w.t.Context(), strings.NewReader(clusterRole(kind)), "apply", "-f", "-")
		require.NoError(w.t, err)
	}
}

// denyCreation has admission refuse CRs of a kind.
func (w *world) denyCreation(kind string) (allow func()) {
	w.t.Helper()
	const name = "faults-deny"
	w.referee.Fault("no %s is admitted", kind)
	policies := w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := w.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	gvr := remediationsOf(kind)
	_, err := policies.Create(w.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{gvr.Group}, APIVersions: []string{"*"}, Resources: []string{gvr.Resource}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "denied by the test"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = bindings.Create(w.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return func() {
		w.t.Helper()
		require.NoError(w.t, errors.Join(
			bindings.Delete(w.t.Context(), name, metav1.DeleteOptions{}),
			policies.Delete(w.t.Context(), name, metav1.DeleteOptions{}),
		))
	}
}

// removeTemplates deletes all templates.
func (w *world) removeTemplates() {
	w.t.Helper()
	w.referee.Fault("the templates are deleted")
	for _, t := range templates {
		require.NoError(w.t, w.dynamic.Resource(templatesOf(t.kind)).Namespace(namespace).Delete(w.t.Context(), t.name, metav1.DeleteOptions{}))
	}
}

// removeKind deletes the CRD of a remediation kind, with all CRs, whatever finalizers
// they have.
func (w *world) removeKind(kind string) (install func()) {
	w.t.Helper()
	w.referee.Fault("kind %s is removed", kind)
	gvr := remediationsOf(kind)
	_, err := w.Kubectl(w.t.Context(), "delete", "crd", gvr.Resource+"."+gvr.Group, "--wait=false")
	require.NoError(w.t, err)
	client := w.dynamic.Resource(gvr).Namespace(namespace)
	w.eventually("the CRD is gone", func() bool {
		list, err := client.List(w.t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return true
		}
		if err == nil {
			for _, cr := range list.Items {
				_, _ = client.Patch(w.t.Context(), cr.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: loader})
			}
		}
		return false
	})
	return func() {
		w.t.Helper()
		w.referee.Remark("kind %s is installed again", kind)
		w.eventually("the CRD is installed", func() bool {
			_, err := w.KubectlInput(w.t.Context(), strings.NewReader(crd(kind)), "apply", "-f", "-")
			return err == nil
		})
		_, err := w.Kubectl(w.t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd/"+gvr.Resource+"."+gvr.Group)
		require.NoError(w.t, err)
	}
}
