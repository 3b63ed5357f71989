// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
// The same holds for MachineHealthChecks (spec M7.3, M19.1).
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
	budgets := createManyBudgets(t, scenarios["budgets"])
	onPlatform := &onPlatform{scenarios["remediating"]}
	onPlatform.labelNode("n00", map[string]any{controlPlaneRole: ""})
	onPlatform.annotateNode("n00", map[string]any{
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
	eventuallyHeldByMany(t, scenarios["budgets"], budgets)
	phases := map[string]v1alpha1.Phase{
		"healthy": v1alpha1.PhaseEnabled, "remediating": v1alpha1.PhaseRemediating, "gate closed": v1alpha1.PhaseEnabled,
		"paused": v1alpha1.PhasePaused, "no template": v1alpha1.PhaseDisabled, "budgets": v1alpha1.PhaseEnabled,
	}
	for key, s := range scenarios {
		require.Equal(t, phases[key], s.status().Phase, key)
	}

	machines := quietMachines(t, c)
	heartbeats := startHeartbeats(t, c)
	noise := func(since time.Time) []localkube.Request {
		return c.audited(t, func(r localkube.Request) bool {
			renewal := isLeaderLease(r) && r.Name == deploy.LeaderLease && (r.Verb == "get" || r.Verb == "update")
			return r.Time.After(since) && !renewal && r.Verb != "watch"
		})
	}
	// After a CRD has changed, the kinds of its group are looked for, at last after 15 seconds.
	patience.Eventually(t, "all that was begun is done", func() bool { return len(noise(time.Now().Add(-16*time.Second))) == 0 })

	begin, beaten := time.Now(), heartbeats.Load()
	versions := map[string]string{}
	for key, s := range scenarios {
		versions[key] = s.get().ResourceVersion
	}
	for key, s := range machines {
		versions["Machines "+key] = s.version()
	}
	select { // The passing of time is the subject.
	case <-time.After(60 * time.Second):
	case <-t.Context().Done():
	}
	patience.Eventually(t, "enough heartbeats", func() bool { return heartbeats.Load()-beaten >= 60*20 })

	require.Empty(t, noise(begin), "requests of a controller that has nothing to do")
	require.NotEmpty(t, c.audited(t, func(r localkube.Request) bool { return r.Time.After(begin) && isLeaderLease(r) }), "the audit log works")
	for key, s := range scenarios {
		require.Equal(t, versions[key], s.get().ResourceVersion, key)
	}
	for key, s := range machines {
		require.Equal(t, versions["Machines "+key], s.version(), key)
	}
	requireRunning(t, controller)

	// It was quiet, not asleep.
	require.Equal(t, stuck.GetUID(), scenarios["remediating"].cr("n00").GetUID())
	scenarios["budgets"].each(budgets, func(name string) {
		require.NoError(t, c.nhc.RemediationV1alpha1().RemediationBudgets().Delete(t.Context(), name, metav1.DeleteOptions{}))
	})
	scenarios["budgets"].eventuallyCR("n00")
	scenarios["remediating"].heal("n00")
	scenarios["remediating"].eventuallyNoCR("n00")
	scenarios["healthy"].fail("n01")
	scenarios["healthy"].eventuallyCR("n01")
	machines["blocked"].updateCheck(atMost(intstr.FromInt32(3)))
	machines["blocked"].eventuallyDecided("b", "MachineDeleting")
}

// manyBudgets is how many RemediationBudgets keep one node waiting.
const manyBudgets = 200

// createManyBudgets creates RemediationBudgets that let nothing begin. They are deleted with the result.
func createManyBudgets(t *testing.T, s *scenario) []string {
	t.Helper()
	created := names(s.name+"-", manyBudgets)
	s.each(created, func(name string) {
		budget := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RemediationBudgetSpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{scenarioLabel: s.name}}, MaxConcurrent: new(intstr.FromInt32(0)),
			Reason: strings.Repeat("because of many reasons ", 10),
		}}
		_, err := s.nhc.RemediationV1alpha1().RemediationBudgets().Create(t.Context(), budget, metav1.CreateOptions{})
		require.NoError(t, err)
	})
	return created
}

// eventuallyHeldByMany waits until all these budgets say that they keep a node waiting. The node has
// one decision.
func eventuallyHeldByMany(t *testing.T, s *scenario, budgets []string) {
	t.Helper()
	s.eventually("all budgets say that the node waits", func() bool {
		list, err := s.nhc.RemediationV1alpha1().RemediationBudgets().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		waiting := 0
		for i := range list.Items {
			if exhausted := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionBudgetExhausted); exhausted != nil && exhausted.Message == "1 node waits: "+s.node("n00") {
				waiting++
			}
		}
		return waiting == len(budgets)
	})
	decision := s.entry("n00").Decision
	require.Equal(t, v1alpha1.DecidedBudgetExhausted, decision.Reason)
	require.Equal(t, budgets[0]+": 0 of at most 0 nodes are under remediation. "+strings.Repeat("because of many reasons ", 10), decision.Message, "B5.1: the first one by name")
}

// startHeartbeats does until the end of the test what kubelets do for all nodes: it
// writes the heartbeat time of a condition and renews the lease of the node, more
// than 20 times per second. The result counts the heartbeats.
func startHeartbeats(t *testing.T, c *cluster) *atomic.Int64 {
	t.Helper()
	list, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(list.Items), 200)
	leases := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for i := range list.Items {
		node := &list.Items[i]
		_, err := leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro())},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { stop(); wg.Wait() })
	var heartbeats atomic.Int64
	next := make(chan *corev1.Node)
	wg.Go(func() {
		ticker := time.NewTicker(time.Second / 22)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			select {
			case next <- &list.Items[i%len(list.Items)]:
			case <-ctx.Done():
				return
			}
		}
	})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case node := <-next:
					if heartbeat(ctx, c, node.Name) == nil {
						heartbeats.Add(1)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return &heartbeats
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
