// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestReplicas: the real scheduler places the replicas of the Deployment so that the failure of one
// node never takes both, on nodes without zones, too, and an update never waits for a node
// that is down (spec 22.1).
func TestReplicas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := startCluster(ctx, localkube.Options{Scheduler: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.stop()) })
	r := &deployment{cluster: c, down: sets.New[string]()}
	r.startKubelets(t)

	t.Log("a cluster of one node")
	r.addNode(t, "a")
	patience.Eventually(t, "both replicas run on it", func() bool { return len(r.ready(t)) == 2 })

	t.Log("a second node joins, and the controller is updated")
	r.addNode(t, "b")
	r.update(t)
	patience.Eventually(t, "the replicas run on different nodes", func() bool { return r.nodes(t).Equal(sets.New("a", "b")) })

	t.Log("a third node is as empty as after a repair, and the failure of the two others is over")
	r.addNode(t, "c")
	for _, node := range []string{"a", "b"} {
		r.fill(t, node)
	}
	for range 3 {
		require.NoError(t, c.kube.CoreV1().Pods(deploy.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		patience.Eventually(t, "both replicas are new", func() bool {
			pods := r.pods(t)
			return len(pods) == 2 && pods[0].DeletionTimestamp == nil && pods[1].DeletionTimestamp == nil && len(r.ready(t)) == 2
		})
		require.Len(t, r.nodes(t), 2, "both replicas run on the emptiest node")
	}

	t.Log("the controller is updated while one of two nodes is down")
	require.NoError(t, c.kube.CoreV1().Nodes().Delete(t.Context(), "c", metav1.DeleteOptions{}))
	require.NoError(t, c.kube.CoreV1().Pods(deploy.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	patience.Eventually(t, "a and b have a replica each", func() bool { return r.nodes(t).Equal(sets.New("a", "b")) && len(r.pods(t)) == 2 })
	r.setDown(t, "b", true)
	before := r.update(t)
	patience.Eventually(t, "only the new version runs on the node that is up", func() bool {
		ready := r.ready(t)
		return len(ready) == 1 && ready[0].Spec.NodeName == "a" && ready[0].Labels[appsv1.DefaultDeploymentUniqueLabelKey] != before
	})
	r.setDown(t, "b", false)
	patience.Eventually(t, "the update ends when the node is back", func() bool {
		status, err := c.kube.AppsV1().Deployments(deploy.Namespace).Get(t.Context(), deploy.ServiceAccount, metav1.GetOptions{})
		require.NoError(t, err)
		return status.Status.UpdatedReplicas == 2 && status.Status.AvailableReplicas == 2 && r.nodes(t).Equal(sets.New("a", "b")) && len(r.pods(t)) == 2
	})
}

// deployment is that of the controller, whose pods kubelets of the test run on paper.
type deployment struct {
	*cluster
	mu   sync.Mutex
	down sets.Set[string] // Nodes whose kubelet does nothing.
}

// startKubelets has each pod that is bound to a node that is up become Ready, and be gone soon after
// its deletion.
func (r *deployment) startKubelets(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() { stop(); done.Wait() })
	done.Go(func() {
		for ctx.Err() == nil {
			if list, err := r.kube.CoreV1().Pods(deploy.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
				for i := range list.Items {
					r.runPod(ctx, &list.Items[i])
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// runPod does what a kubelet does about a pod. Errors are met by the next round.
func (r *deployment) runPod(ctx context.Context, pod *corev1.Pod) {
	r.mu.Lock()
	down := r.down.Has(pod.Spec.NodeName)
	r.mu.Unlock()
	switch {
	case pod.Spec.NodeName == "" || down:
	case pod.DeletionTimestamp != nil:
		_ = r.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	case pod.Status.Phase != corev1.PodRunning:
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		_, _ = r.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
}

// addNode adds a Node without zone.
func (r *deployment) addNode(t *testing.T, name string) {
	t.Helper()
	nodes := r.kube.CoreV1().Nodes()
	_, err := nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.setDown(t, name, false)
}

// setDown has the kubelet of a node stop or work, and the Node have the taint that node-lifecycle-controller
// then gives it.
func (r *deployment) setDown(t *testing.T, name string, down bool) {
	t.Helper()
	r.mu.Lock()
	r.down.Delete(name)
	if down {
		r.down.Insert(name)
	}
	r.mu.Unlock()
	patience.Eventually(t, "the taints of "+name, func() bool {
		node, err := r.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		node.Spec.Taints = nil // With that of a new Node.
		if down {
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}
		}
		_, err = r.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
		require.True(t, err == nil || apierrors.IsConflict(err), err)
		return err == nil
	})
}

// fill has a node run something else, which uses half of it.
func (r *deployment) fill(t *testing.T, node string) {
	t.Helper()
	half := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}
	_, err := r.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "other-" + node},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "other", Image: "other", Resources: corev1.ResourceRequirements{Requests: half}}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// update has the Deployment create pods of another version, and returns the hash of the present one.
func (r *deployment) update(t *testing.T) (before string) {
	t.Helper()
	before = r.ready(t)[0].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	_, err := r.Kubectl(t.Context(), "rollout", "restart", "deployment", deploy.ServiceAccount, "--namespace", deploy.Namespace)
	require.NoError(t, err)
	return before
}

func (r *deployment) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := r.kube.CoreV1().Pods(deploy.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return list.Items
}

// ready returns the pods that are Ready on nodes that are up.
func (r *deployment) ready(t *testing.T) (ready []corev1.Pod) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.pods(t) {
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && !r.down.Has(pod.Spec.NodeName) {
			ready = append(ready, pod)
		}
	}
	return ready
}

// nodes returns where the pods are that are Ready.
func (r *deployment) nodes(t *testing.T) sets.Set[string] {
	t.Helper()
	nodes := sets.New[string]()
	for _, pod := range r.ready(t) {
		nodes.Insert(pod.Spec.NodeName)
	}
	return nodes
}
