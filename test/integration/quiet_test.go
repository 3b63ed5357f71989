// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/patience"
)

// TestQuietCluster: when nothing happens, the controller asks for nothing and writes
// nothing, however many nodes heartbeat and in whatever state the NodeHealthChecks
// are, also where a node has a Machine of a platform that is not served (spec 1.3, P3, 21.1).
func TestQuietCluster(t *testing.T) {
	t.Parallel()
	c := exclusiveCluster(t)
	c.installOptional(t, clusterAPIMachine)
	c.applyOverlay(t, ownOverlay)
	controller := c.startController(t, "quiet")

	nodes := make([]string, 40)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("n%02d", i)
	}
	start := func(key string, change ...func(*v1alpha1.NodeHealthCheckSpec)) *scenario {
		s := newEmptyScenario(t, c, t.Name()+key, powerCycle)
		s.createNodes(nodes...)
		if key != "no template" {
			s.createTemplate(usualTemplate())
		}
		s.createNHC(change...)
		return s
	}
	scenarios := map[string]*scenario{
		"healthy":     start("healthy"),
		"remediating": start("remediating"),
		"gate closed": start("gate closed", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.MinHealthy = new(intstr.FromString("100%")) }),
		"paused":      start("paused", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"maintenance"} }),
		"no template": start("no template"),
		"budgets":     start("budgets"),
	}
	scenarios["budgets"].createBudget(maxConcurrent(0))
	scenarios["remediating"].labelNode("n00", map[string]any{controlPlaneRole: ""})
	scenarios["remediating"].annotateNode("n00", map[string]any{
		"machine.openshift.io/machine": "machines/a", "cluster.x-k8s.io/machine": "a", "cluster.x-k8s.io/cluster-namespace": "machines",
	})
	for key, s := range scenarios {
		if key != "healthy" {
			s.fail("n00")
			s.eventuallyCounts(40, 39)
		}
	}
	stuck := scenarios["remediating"].eventuallyCR("n00")
	scenarios["remediating"].report("n00", [2]string{v1alpha1.RemediationSucceeded, "False"})
	scenarios["gate closed"].eventuallyEvent("RemediationSkipped",
		"Skipped remediation because the number of healthy nodes selected by the selector is 39 and should equal or exceed 40")
	scenarios["no template"].eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
	scenarios["budgets"].eventuallyHeldByBudget("n00", scenarios["budgets"].name+": no remediation may begin")
	phases := map[string]v1alpha1.Phase{
		"healthy": v1alpha1.PhaseEnabled, "remediating": v1alpha1.PhaseRemediating, "gate closed": v1alpha1.PhaseEnabled,
		"paused": v1alpha1.PhasePaused, "no template": v1alpha1.PhaseDisabled, "budgets": v1alpha1.PhaseEnabled,
	}
	for key, s := range scenarios {
		require.Equal(t, phases[key], s.status().Phase, key)
	}

	noise := func(since time.Time) []localkube.Request {
		return c.audited(t, func(r localkube.Request) bool {
			renewal := isLeaderLease(r) && r.Name == deploy.LeaderLease && (r.Verb == "get" || r.Verb == "update")
			return r.Time.After(since) && !renewal && r.Verb != "watch"
		})
	}
	// After a CRD has changed, the kinds of its group are looked for, at last after 15 seconds.
	patience.Eventually(t, "all that was begun is done", func() bool { return len(noise(time.Now().Add(-16*time.Second))) == 0 })

	begin := time.Now()
	versions := map[string]string{}
	for key, s := range scenarios {
		versions[key] = s.get().ResourceVersion
	}
	beat(t, c)

	// It was quiet, not asleep: what comes now is done, and all that came before has been seen.
	end := time.Now()
	scenarios["healthy"].fail("n01")
	scenarios["healthy"].eventuallyCR("n01")
	needless := slices.DeleteFunc(noise(begin), func(r localkube.Request) bool { return r.Time.After(end) })
	require.Empty(t, needless, "requests of a controller that has nothing to do")
	delete(scenarios, "healthy")
	for key, s := range scenarios {
		require.Equal(t, versions[key], s.get().ResourceVersion, key)
	}
	requireRunning(t, controller)

	require.Equal(t, stuck.GetUID(), scenarios["remediating"].cr("n00").GetUID())
	scenarios["remediating"].heal("n00")
	scenarios["remediating"].eventuallyNoCR("n00")
}

// beat has the kubelet of each node say three times that it is well.
func beat(t *testing.T, c *cluster) {
	t.Helper()
	list, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	leases := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for i := range list.Items {
		node := &list.Items[i]
		_, err := leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro())},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, heartbeat(t.Context(), c, node.Name))
		}
	}
}

func heartbeat(ctx context.Context, c *cluster, node string) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions":  []any{map[string]any{"type": corev1.NodeReady, "lastHeartbeatTime": metav1.Now()}},
		"allocatable": map[string]any{"ephemeral-storage": fmt.Sprint(time.Now().UnixMilli() % 1000)}, // Kubelets change more than the time.
	}})
	if err != nil {
		return err
	}
	if _, err := c.kube.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	renewal, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NowMicro()}})
	if err != nil {
		return err
	}
	_, err = c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, node, types.MergePatchType, renewal, metav1.PatchOptions{})
	return err
}
