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
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestRemediators has remediators misbehave. In all tests they hang, lie and delete
// objects of others. Here the test also takes permissions away, admission refuses CRs,
// templates and kinds vanish, and all of it comes back while the load goes on.
func TestRemediators(t *testing.T) {
	forEachSeed(t, func(t *testing.T, seed uint64) {
		e := newEnvironment(t, seed)
		e.startAlone(nil)
		l := e.usualLoad()
		e.testGoing() // Without it, some short runs see no step end (13.5).
		run := func() { l.run(t.Context(), lasting(time.Second, 8*time.Second)) }
		for range numberOf(1, 3) {
			run()
			give := e.takePermission(kindNames[1])
			run()
			give()
			allow := e.denyCreation(kindNames[0])
			run()
			allow()
			e.removeTemplates()
			run()
			e.requireNone(e.referee.Settled(t.Context(), patience.Limit)) // Disabled, and what runs finishes.
			require.NoError(t, e.createTemplates(t.Context()))
			install := e.removeKind(kindNames[2])
			run()
			install()
			run()
			e.requireOrder()
		}
		e.requireSettled()
		e.requireSeen(5, 3)
	})
}

// testGoing lets another client delete the CRs of both steps of a node. The remediator keeps the
// second one. Nothing new may begin before that is gone (P9).
func (e *environment) testGoing() {
	e.t.Helper()
	e.remediators.rest(true)
	defer e.remediators.rest(false)
	const i = 4 // In the pool of the ladder.
	// No other NodeHealthCheck wants the node.
	require.NoError(e.t, e.changeNHC(e.t.Context(), "overlapping", map[string]any{"pauseRequests": []string{"test"}}))
	defer func() {
		require.NoError(e.t, e.changeNHC(e.t.Context(), "overlapping", map[string]any{"pauseRequests": nil}))
	}()
	time.Sleep(beyondTolerance)
	e.fail(i)
	first := e.eventuallyCR(kindNames[0], nodeName(i))
	// No step ends during a pause, whatever its remediator says.
	require.NoError(e.t, e.changeNHC(e.t.Context(), "ladder", map[string]any{"pauseRequests": []string{"test"}}))
	time.Sleep(beyondSync)
	e.remediators.report(e.t.Context(), remediationsOf(kindNames[0]), first, conditions("False"))
	time.Sleep(time.Second)
	require.NoError(e.t, e.changeNHC(e.t.Context(), "ladder", map[string]any{"pauseRequests": nil}))
	second := e.eventuallyCR(kindNames[1], nodeName(i))
	require.True(e.t, e.remediators.finalizers(e.t.Context(), remediationsOf(kindNames[1]), second, finalizer))
	require.NoError(e.t, e.changeNHC(e.t.Context(), "ladder", map[string]any{"pauseRequests": []string{"test"}}))
	e.referee.Fault("somebody deletes the CRs of node %s", nodeName(i))
	for kind, cr := range map[string]*unstructured.Unstructured{kindNames[0]: first, kindNames[1]: second} {
		require.NoError(e.t, e.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).Delete(e.t.Context(), cr.GetName(), metav1.DeleteOptions{}))
	}
	// A controller that has not waited for it goes on as soon as it may.
	time.Sleep(beyondSync)
	require.NoError(e.t, e.changeNHC(e.t.Context(), "ladder", map[string]any{"pauseRequests": nil}))
	time.Sleep(time.Second)
	require.True(e.t, e.remediators.finalizers(e.t.Context(), remediationsOf(kindNames[1]), second))
}

// eventuallyCR waits until there is a CR of a kind for a node.
func (e *environment) eventuallyCR(kind, node string) *unstructured.Unstructured {
	e.t.Helper()
	var found *unstructured.Unstructured
	patience.Eventually(e.t, "a "+kind+" for node "+node, func() bool {
		list, err := e.dynamic.Resource(remediationsOf(kind)).Namespace(namespace).List(e.t.Context(), metav1.ListOptions{})
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
func (e *environment) takePermission(kind string) (give func()) {
	e.t.Helper()
	e.referee.Fault("no permission for %s", kind)
	require.NoError(e.t, e.kube.RbacV1().ClusterRoles().Delete(e.t.Context(), "faults-"+strings.ToLower(kind), metav1.DeleteOptions{}))
	return func() {
		e.t.Helper()
		e.referee.Remark("permission for %s again", kind)
		_, err := e.KubectlInput(e.t.Context(), strings.NewReader(clusterRole(kind)), "apply", "-f", "-")
		require.NoError(e.t, err)
	}
}

// denyCreation has admission refuse CRs of a kind.
func (e *environment) denyCreation(kind string) (allow func()) {
	e.t.Helper()
	const name = "faults-deny"
	e.referee.Fault("no %s is admitted", kind)
	policies := e.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := e.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	gvr := remediationsOf(kind)
	_, err := policies.Create(e.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
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
	require.NoError(e.t, err)
	_, err = bindings.Create(e.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(e.t, err)
	return func() {
		e.t.Helper()
		require.NoError(e.t, errors.Join(
			bindings.Delete(e.t.Context(), name, metav1.DeleteOptions{}),
			policies.Delete(e.t.Context(), name, metav1.DeleteOptions{}),
		))
	}
}

// removeTemplates deletes all templates.
func (e *environment) removeTemplates() {
	e.t.Helper()
	e.referee.Fault("the templates are deleted")
	for _, t := range templates {
		require.NoError(e.t, e.dynamic.Resource(templatesOf(t.kind)).Namespace(namespace).Delete(e.t.Context(), t.name, metav1.DeleteOptions{}))
	}
}

// removeKind deletes the CRD of a remediation kind, with all CRs, whatever finalizers
// they have.
func (e *environment) removeKind(kind string) (install func()) {
	e.t.Helper()
	e.referee.Fault("kind %s is removed", kind)
	gvr := remediationsOf(kind)
	_, err := e.Kubectl(e.t.Context(), "delete", "crd", gvr.Resource+"."+gvr.Group, "--wait=false")
	require.NoError(e.t, err)
	client := e.dynamic.Resource(gvr).Namespace(namespace)
	patience.Eventually(e.t, "the CRD is gone", func() bool {
		list, err := client.List(e.t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return true
		}
		if err == nil {
			for _, cr := range list.Items {
				_, _ = client.Patch(e.t.Context(), cr.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: loader})
			}
		}
		return false
	})
	return func() {
		e.t.Helper()
		e.referee.Remark("kind %s is installed again", kind)
		patience.Eventually(e.t, "the CRD is installed", func() bool {
			_, err := e.KubectlInput(e.t.Context(), strings.NewReader(crd(kind)), "apply", "-f", "-")
			return err == nil
		})
		_, err := e.Kubectl(e.t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "crd/"+gvr.Resource+"."+gvr.Group)
		require.NoError(e.t, err)
	}
}
