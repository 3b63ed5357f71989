// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// The range of UIDs of a namespace, as OpenShift writes it, and its first UID.
const (
	uidRange = "1000650000/10000"
	firstUID = 1000650000
)

// securityContextConstraints does what the constraint restricted-v2 of OpenShift does about
// users: a pod that names none gets one of its namespace's range, and all others are refused.
const securityContextConstraints = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: uid-of-range}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: no-user, expression: "!object.spec.?securityContext.?runAsUser.hasValue()"}
  variables:
  - name: range
    expression: namespaceObject.metadata.?annotations[?'openshift.io/sa.scc.uid-range'].orValue('0/0').split('/')
  - {name: first, expression: "int(variables.range[0])"}
  - {name: end, expression: "variables.first + int(variables.range[1])"}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        variables.first == variables.end ? Object{} :
        Object{spec: Object.spec{securityContext: Object.spec.securityContext{runAsUser: variables.first}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: uid-of-range}
spec: {policyName: uid-of-range}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: uid-in-range}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  variables:
  - name: range
    expression: namespaceObject.metadata.?annotations[?'openshift.io/sa.scc.uid-range'].orValue('0/0').split('/')
  - {name: first, expression: "int(variables.range[0])"}
  - {name: end, expression: "variables.first + int(variables.range[1])"}
  - name: users
    expression: "[object.spec.?securityContext.?runAsUser] + object.spec.containers.map(c, c.?securityContext.?runAsUser)"
  validations:
  - expression: >-
      variables.first == variables.end ||
      variables.users.all(user, !user.hasValue() || (variables.first <= user.value() && user.value() < variables.end))
    message: runAsUser is not in the range of the namespace
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: uid-in-range}
spec: {policyName: uid-in-range, validationActions: [Deny]}
`

// TestPodAdmission: the pods of the Deployment are admitted where platforms refuse what
// Kubernetes alone does not (spec 22.1). They are created by the controllers that create
// them elsewhere, too.
func TestPodAdmission(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := startCluster(ctx, localkube.Options{PodAdmission: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.stop()) })
	c.begin = time.Now()
	t.Run("22.1 limited priority classes", func(t *testing.T) { testLimitedPriority(t, c) })
	t.Run("22.1 restricted namespaces", func(t *testing.T) { testRestrictedNamespaces(t, c) })
	t.Run("shipped pod", func(t *testing.T) { testShippedPod(t, c) })
	t.Run("22.1 UIDs of OpenShift", func(t *testing.T) { testUIDsOfOpenShift(t, c) })
	t.Run("22.1 dashboard", func(t *testing.T) { testDashboardPod(t, c) })
	t.Run("22.1 another namespace", func(t *testing.T) { testAnotherNamespace(t, c) })
}

// eventuallyPods returns the pods of the Deployment, once all are there.
func (c *cluster) eventuallyPods(t *testing.T, namespace string) (pods []corev1.Pod) {
	t.Helper()
	patience.Eventually(t, "the pods in "+namespace, func() bool {
		list, err := c.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nhc-controller"})
		require.NoError(t, err)
		pods = list.Items
		return len(pods) == 2
	})
	for i := range pods {
		require.Equal(t, "ReplicaSet", metav1.GetControllerOf(&pods[i]).Kind)
	}
	return pods
}

// testLimitedPriority: as on GKE, a critical priority class needs a quota that permits it.
func testLimitedPriority(t *testing.T, c *cluster) {
	for _, pod := range c.eventuallyPods(t, deploy.Namespace) {
		require.Equal(t, "system-cluster-critical", pod.Spec.PriorityClassName)
	}
	quotas := c.kube.CoreV1().ResourceQuotas(deploy.Namespace)
	patience.Eventually(t, "the quota counts the pods", func() bool {
		quota, err := quotas.Get(t.Context(), "nhc-controller", metav1.GetOptions{})
		require.NoError(t, err)
		return quota.Status.Used.Pods().Value() == 2
	})

	require.NoError(t, quotas.Delete(t.Context(), "nhc-controller", metav1.DeleteOptions{}))
	patience.Eventually(t, "it is needed: a pod is refused", func() bool {
		_, err := c.admit(t, c.shippedPod(t))
		return err != nil && strings.Contains(err.Error(), "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical system-cluster-critical]}]")
	})
	_, err := c.Kubectl(t.Context(), "apply", "-f", installManifest)
	require.NoError(t, err)
	patience.Eventually(t, "a pod is admitted", func() bool {
		_, err := c.admit(t, c.shippedPod(t))
		return err == nil
	})
}

// testUIDsOfOpenShift: the overlay for OpenShift names no UID, and base is refused there.
func testUIDsOfOpenShift(t *testing.T, c *cluster) {
	_, err := c.Kubectl(t.Context(), "annotate", "namespace", deploy.Namespace, "openshift.io/sa.scc.uid-range="+uidRange)
	require.NoError(t, err)
	_, err = c.KubectlInput(t.Context(), strings.NewReader(securityContextConstraints), "apply", "-f", "-")
	require.NoError(t, err)
	pod := c.shippedPod(t)
	patience.Eventually(t, "the pods of base are refused", func() bool {
		_, err := c.admit(t, pod)
		return err != nil && strings.Contains(err.Error(), "runAsUser is not in the range of the namespace")
	})
	pod.Spec.SecurityContext.RunAsUser = nil
	patience.Eventually(t, "a pod without user gets one", func() bool {
		admitted, err := c.admit(t, pod)
		require.NoError(t, err)
		return admitted.Spec.SecurityContext.RunAsUser != nil
	})

	// Nothing is rolled out: no pod becomes ready here.
	deployments := c.kube.AppsV1().Deployments(deploy.Namespace)
	require.NoError(t, deployments.Delete(t.Context(), deploy.ServiceAccount, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
	patience.Eventually(t, "the Deployment is gone", func() bool {
		list, err := deployments.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(list.Items) == 0
	})
	_, err = c.Kubectl(t.Context(), "create", "namespace", "openshift-etcd")
	require.NoError(t, err)
	c.applyOverlay(t, "openshift")
	for _, pod := range c.eventuallyPods(t, deploy.Namespace) {
		security := pod.Spec.SecurityContext
		require.Equal(t, int64(firstUID), *security.RunAsUser)
		require.Nil(t, security.RunAsGroup)
		require.True(t, *security.RunAsNonRoot)
	}
	namespace, err := c.kube.CoreV1().Namespaces().Get(t.Context(), deploy.Namespace, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "true", namespace.Labels["openshift.io/cluster-monitoring"])
	require.Equal(t, "restricted", namespace.Labels["pod-security.kubernetes.io/enforce"])
}
