// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func twoSelectOneNode(t *testing.T, c *cluster) {
	references := c.references()
	c.addNHC("amber")
	c.changeSpec("amber", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = &references[len(references)-1] })
	c.sleep(inTime)
	c.unready("worker-0")
	c.sleep(2 * inTime)
	require.Len(t, c.crs(), 1)
	winner, loser := c.crs()[0].Owners[0], "amber"
	if winner == loser {
		loser = "blue"
	}
	require.Len(t, c.entry(winner, "worker-0").Remediations, 1)
	require.Empty(t, c.entry(loser, "worker-0").Remediations)
	require.Equal(t, v1alpha1.DecidedLeaseTaken, c.entry(loser, "worker-0").Decision.Reason)
	c.changeSpec(winner, func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"to let the other one try"} })
	c.sleep(inTime)
	c.deleteCR()
	c.sleep(2 * inTime)
	require.Len(t, c.entry(loser, "worker-0").Remediations, 1)
}

func objectVanishes(t *testing.T, c *cluster) {
	c.unready("worker-0")
	c.sleep(time.Minute)
	old := c.crs()[0]
	c.deleteCR()
	c.sleep(inTime)
	require.Len(t, c.crs(), 1)
	entry := c.entry("blue", "worker-0")
	require.Len(t, entry.Remediations, 1)
	require.Equal(t, c.crs()[0].UID, entry.Remediations[0].Resource.UID)
	require.NotEqual(t, old.UID, entry.Remediations[0].Resource.UID)
	require.WithinDuration(t, time.Now(), entry.Remediations[0].Started.Time, inTime)
}

// allVanish: a remediator deletes its CR after 10 s, and the node stays unhealthy.
func allVanish(t *testing.T, c *cluster) {
	first := c.nhc("blue").Spec.RemediationTemplate
	second := c.references()[len(c.references())-1]
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = nil
		spec.EscalatingRemediations = []v1alpha1.EscalatingRemediation{
			{RemediationTemplate: *first, Order: 1, Timeout: metav1.Duration{Duration: 20 * time.Minute}},
			{RemediationTemplate: second, Order: 2, Timeout: metav1.Duration{Duration: 20 * time.Minute}},
		}
	})
	c.sleep(inTime)
	c.unready("worker-0")
	begun, created := time.Now().Add(time.Second), []string(nil)
	for time.Since(begun) < 21*time.Minute {
		c.sleep(10 * time.Second)
		for _, cr := range c.crs() {
			created = append(created, cr.Kind+" "+cr.Created.Sub(begun).Truncate(10*time.Second).String())
			c.server.Delete("remediator", c.of(cr).crs(), keyOf(cr))
		}
	}
	fence, other := c.kinds[0].kind, strings.TrimSuffix(second.Kind, "Template")
	require.Equal(t, []string{fence + " 0s", fence + " 0s", fence + " 5m10s", fence + " 15m20s", other + " 20m0s", other + " 20m0s"}, created)
	decision := c.entry("blue", "worker-0").Decision
	require.Equal(t, v1alpha1.DecidedVanished, decision.Reason)
	require.Equal(t, v1alpha1.DecisionWaiting, decision.Type)
	require.NotNil(t, decision.NextCheckTime)
	require.Len(t, c.notes("Node", "RemediationSkipped"), 4, "once each time")
}

// creationUnseen: the watch shows a CR later than a sync waits for it. It is one step, with one event.
func creationUnseen(t *testing.T, c *cluster) {
	c.beginLag(c.kinds[0].crs(), 50*time.Second)
	c.unready("worker-0")
	c.sleep(5 * time.Second)
	require.Len(t, c.crs(), 1)
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"maintenance"} })
	c.sleep(35 * time.Second)
	c.endLag()
	c.sleep(time.Minute)
	c.heal("worker-0")
	c.sleep(2 * inTime)
	require.Empty(t, c.crs())
	episodes := c.nhc("blue").Status.RemediationHistory
	require.Len(t, episodes, 1)
	require.Len(t, episodes[0].Steps, 1)
	require.Equal(t, v1alpha1.StepRecovered, episodes[0].Steps[0].Result)
	require.Len(t, c.notes("Node", "RemediationCreated"), 1)
}

func controlPlaneLabels(t *testing.T, c *cluster) {
	c.unready("master-0")
	c.sleep(2 * inTime)
	for worker, label := range map[string]string{"worker-0": "control-plane", "worker-1": "controlplane", "worker-2": "master", "worker-3": "etcd"} {
		c.changeNode(worker, func(node *unstructured.Unstructured) {
			setEntry(node, "labels", "node-role.kubernetes.io/"+label, "any")
			setCondition(node, string(corev1.NodeReady), "Unknown")
		})
	}
	c.unready("worker-4")
	c.sleep(2 * inTime)
	require.Equal(t, []string{"master-0", "worker-4"}, c.remediated())
	for _, worker := range []string{"worker-0", "worker-1", "worker-2", "worker-3"} {
		require.Equal(t, v1alpha1.DecidedControlPlaneBusy, c.decided(worker))
	}
}

func leaseOfAnother(t *testing.T, c *cluster) {
	now := metav1.NewMicroTime(time.Now())
	_, err := c.server.Create(maintainer, leases, from(&coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseKey("worker-0").Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(maintainer), AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: new(int32(300))},
	}))
	require.NoError(t, err)
	c.unready("worker-0", "worker-1")
	c.sleep(4 * time.Minute)
	require.Equal(t, []string{"worker-1"}, c.remediated())
	require.Equal(t, v1alpha1.DecidedLeaseTaken, c.decided("worker-0"))
	require.Equal(t, []string{"[remediation] Skipped remediation of node: worker-0, because node lease is already taken"}, c.notes("Node", "RemediationSkipped"))
	c.sleep(2 * time.Minute)
	require.Equal(t, []string{"worker-0", "worker-1"}, c.remediated(), "it has run out")
}

func leaseLost(t *testing.T, c *cluster) {
	c.unready("worker-0")
	c.sleep(time.Minute)
	uid := c.crs()[0].UID
	c.server.Delete("user", leases, leaseKey("worker-0"))
	c.sleep(5 * time.Minute)
	require.Nil(t, c.lease("worker-0"))
	require.Equal(t, uid, c.crs()[0].UID, "it goes on without")
	c.deleteCR()
	c.sleep(inTime)
	require.Len(t, c.crs(), 1)
	require.NotNil(t, c.lease("worker-0"), "the next one needs it")
}

func otherLabelValues(t *testing.T, c *cluster) {
	for node, value := range map[string]string{"worker-0": "", "worker-1": "false", "worker-2": "true"} {
		c.changeNode(node, func(object *unstructured.Unstructured) { setEntry(object, "labels", v1alpha1.LabelExclude, value) })
		c.unready(node)
	}
	c.sleep(2 * inTime)
	require.Equal(t, []string{"worker-0", "worker-1"}, c.remediated())
	invalid := c.notes("Node", "InvalidNodeLabel")
	require.Len(t, invalid, 1)
	require.Contains(t, invalid[0], "Node worker-0 has exclude-from-remediation label with empty value")
}

func lastObjectGone(t *testing.T, c *cluster) {
	c.unready("worker-0")
	c.sleep(2 * inTime)
	cr := c.crs()[0]
	c.holds(cr)
	c.heal("worker-0")
	c.sleep(time.Minute)
	require.Equal(t, v1alpha1.PhaseRemediating, c.nhc("blue").Status.Phase, "16.2: its finalizer is held")
	require.EqualValues(t, 8, *c.nhc("blue").Status.HealthyNodes)
	before := c.syncs("blue")
	c.sleep(time.Hour)
	require.LessOrEqual(t, c.syncs("blue")-before, 120, "it renews the lease, and polls nothing")
	c.letGo(cr)
	c.sleep(inTime)
	status := c.nhc("blue").Status
	require.Empty(t, status.UnhealthyNodes)
	require.EqualValues(t, 9, *status.HealthyNodes)
	require.Equal(t, v1alpha1.PhaseEnabled, status.Phase)
	require.Nil(t, c.lease("worker-0"))
}

// fewRequests: a failure and a recovery cost at most nine requests. Events, the election of leaders, and the status of
// a node whose condition has to last come on top (docs/performance.md).
func fewRequests(t *testing.T, c *cluster) {
	c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) {
		for i := range spec.UnhealthyConditions {
			spec.UnhealthyConditions[i].Duration.Duration = 0
		}
	})
	c.sleep(inTime)
	begin := len(c.server.Requests(0))
	c.unready("worker-0")
	c.sleep(time.Minute)
	c.heal("worker-0")
	c.sleep(time.Minute)
	var sent []string
	for _, request := range c.server.Requests(begin) {
		election := request.Resource == leases && request.Name == "nhc-controller"
		if strings.HasPrefix(request.User, "replica") && request.Verb != "watch" && request.Resource != events && !election {
			sent = append(sent, strings.TrimSpace(request.Verb+" "+request.Resource.Resource+" "+request.Subresource))
		}
	}
	require.Contains(t, sent, "create "+c.kinds[0].crs().Resource)
	require.Contains(t, sent, "delete "+c.kinds[0].crs().Resource)
	require.LessOrEqual(t, len(sent), 9, "%v", sent)
}
