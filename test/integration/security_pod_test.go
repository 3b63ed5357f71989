// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nhc-controller/nhc-controller/test/deploy"
)

// shippedPod returns a pod of the Deployment.
func (c *cluster) shippedPod(t *testing.T) *corev1.Pod {
	t.Helper()
	deployment, err := c.kube.AppsV1().Deployments(deploy.Namespace).Get(t.Context(), deploy.ServiceAccount, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, deployment.Spec.Template.Spec.Containers, 1)
	require.Empty(t, deployment.Spec.Template.Spec.InitContainers)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "example", Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
}

// admit asks the API server for a pod, and returns it as it would be stored.
func (c *cluster) admit(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return c.kube.CoreV1().Pods(deploy.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: dryRun})
}

// testRestrictedNamespaces: a user who may change the Deployment gets no power over a
// node. The controller has none either.
func testRestrictedNamespaces(t *testing.T, c *cluster) {
	_, err := c.admit(t, c.shippedPod(t))
	require.NoError(t, err)
	container := func(change func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { change(spec.Containers[0].SecurityContext) }
	}
	// A privileged container is refused by this API server before anybody looks at levels.
	for says, change := range map[string]func(*corev1.PodSpec){
		"allowPrivilegeEscalation":  container(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = new(true) }),
		"unrestricted capabilities": container(func(s *corev1.SecurityContext) { s.Capabilities = nil }),
		"runAsUser=0":               container(func(s *corev1.SecurityContext) { s.RunAsUser = new(int64(0)) }),
		"runAsNonRoot != true":      func(spec *corev1.PodSpec) { spec.SecurityContext.RunAsNonRoot = nil },
		"seccompProfile":            func(spec *corev1.PodSpec) { spec.SecurityContext.SeccompProfile = nil },
		"host namespaces":           func(spec *corev1.PodSpec) { spec.HostPID = true },
		`restricted volume types (volume`: func(spec *corev1.PodSpec) {
			spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
	} {
		pod := c.shippedPod(t)
		change(&pod.Spec)
		_, err := c.admit(t, pod)
		require.ErrorContains(t, err, `violates PodSecurity "restricted:latest"`, says)
		require.ErrorContains(t, err, says)
	}

	// No pod belongs beside the leases, least of all one like this.
	pod := c.shippedPod(t)
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount, pod.Spec.PriorityClassName = "default", "default", ""
	pod.Spec.HostPID = true
	_, err = c.kube.CoreV1().Pods(nodeLeaseNamespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: dryRun})
	require.ErrorContains(t, err, `violates PodSecurity "restricted:latest"`)
}

// testShippedPod: what the restricted level does not ask for.
func testShippedPod(t *testing.T, c *cluster) {
	pod, err := c.admit(t, c.shippedPod(t))
	require.NoError(t, err)
	container := pod.Spec.Containers[0]
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, container.Resources.Limits.Memory().IsZero(), "a leak ends the controller, not the node")
	for _, variable := range container.Env {
		if variable.Name == "GOMEMLIMIT" {
			soft, err := resource.ParseQuantity(strings.TrimSuffix(variable.Value, "B"))
			require.NoError(t, err)
			require.InDelta(t, 0.9, soft.AsApproximateFloat64()/container.Resources.Limits.Memory().AsApproximateFloat64(), 0.01, "garbage is collected before the limit is reached")
		}
	}
	require.False(t, container.Resources.Requests.Memory().IsZero())
	require.False(t, container.Resources.Requests.Cpu().IsZero())
	require.NotNil(t, container.LivenessProbe)
	require.NotNil(t, container.ReadinessProbe)
	require.False(t, pod.Spec.HostNetwork)
	for _, port := range container.Ports {
		require.Zero(t, port.HostPort)
	}

	// The token, and nothing else, is mounted. Only this pod asks for it.
	require.Len(t, pod.Spec.Volumes, 1)
	require.NotNil(t, pod.Spec.Volumes[0].Projected)
	require.Len(t, container.VolumeMounts, 1)
	require.Equal(t, "/var/run/secrets/kubernetes.io/serviceaccount", container.VolumeMounts[0].MountPath)
	other := c.shippedPod(t)
	other.Spec.AutomountServiceAccountToken = nil
	other, err = c.admit(t, other)
	require.NoError(t, err)
	require.Equal(t, deploy.ServiceAccount, other.Spec.ServiceAccountName)
	require.Empty(t, other.Spec.Volumes)
}

// TestNetworkPolicy: what the pod serves can be reached, and nothing else. The API
// server can be reached wherever it is.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	policies, err := c.kube.NetworkingV1().NetworkPolicies(deploy.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, policies.Items, 1)
	policy := policies.Items[0].Spec
	require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, policy.PolicyTypes)
	pod := c.shippedPod(t)
	selector, err := metav1.LabelSelectorAsSelector(&policy.PodSelector)
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(pod.Labels)))
	var open, served []int32
	for _, rule := range policy.Ingress {
		require.Empty(t, rule.From, "the probes come from nodes, and Prometheus may be anywhere")
		require.NotEmpty(t, rule.Ports, "no rule opens all ports")
		for _, port := range rule.Ports {
			require.Equal(t, corev1.ProtocolTCP, *port.Protocol)
			require.Nil(t, port.EndPort)
			open = append(open, port.Port.IntVal)
		}
	}
	for _, port := range pod.Spec.Containers[0].Ports {
		served = append(served, port.ContainerPort)
	}
	require.ElementsMatch(t, served, open)
}
