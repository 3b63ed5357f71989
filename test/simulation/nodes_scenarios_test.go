// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// withNHC runs the controller in a cluster with NodeHealthCheck "blue" and two healthy nodes of the control
// plane, in which only that happens what the test does, and checks the rules meanwhile.
func withNHC(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, log := countingContext(t)
		c := emptyCluster(ctx, t, 2, nil)
		c.synced = log
		defer c.shutDown()
		defer c.reportBroken()
		c.addNHC("blue")
		for _, name := range []string{"master-0", "master-1", "master-2"} { // Enough for a quorum without one.
			c.createNode(name, corev1.ConditionTrue)
			c.changeNode(name, func(node *unstructured.Unstructured) {
				node.SetLabels(map[string]string{"pool": "a", "node-role.kubernetes.io/control-plane": ""})
			})
		}
		c.elect()
		c.sleep(time.Minute)
		test(t, c)
	})
}

// remediated returns the names of the nodes that have a CR.
func (c *cluster) remediated() []string {
	var names []string
	for _, cr := range c.crs() {
		names = append(names, cr.Node)
	}
	return names
}

// TestFailedCreationIsRepeated: a CR that a webhook denies is created once it is allowed, although nothing
// else happens in the cluster (spec P12).
func TestFailedCreationIsRepeated(t *testing.T) {
	t.Parallel()
	withNHC(t, func(t *testing.T, c *cluster) {
		creation := "create " + c.kinds[0].crs().Resource
		c.deny(creation, true)
		c.disturb("creations are denied", 4*time.Minute)
		c.setReady("master-0", corev1.ConditionUnknown)
		c.sleep(2 * time.Minute)
		require.Empty(t, c.remediated())
		c.deny(creation, false)
		c.sleep(time.Minute + inTime)
		require.Equal(t, []string{"master-0"}, c.remediated(), "it is tried at least once a minute")
	})
}

// TestCreatedUnseen: while the watch does not show a CR that was created, its node is under remediation:
// it keeps its lease, and the other node of the control plane has to wait (spec P9).
func TestCreatedUnseen(t *testing.T) {
	t.Parallel()
	withNHC(t, func(t *testing.T, c *cluster) {
		c.beginLag(c.kinds[0].crs(), 20*time.Second)
		c.setReady("master-0", corev1.ConditionUnknown)
		c.sleep(5 * time.Second)
		require.Equal(t, []string{"master-0"}, c.remediated())
		c.heal("master-0")
		c.setReady("master-1", corev1.ConditionUnknown)
		c.sleep(10 * time.Second)
		require.Equal(t, []string{"master-0"}, c.remediated(), "the cache does not show it yet")
		require.True(t, rules.LeaseValid(c.lease("master-0"), time.Now()))
		require.NotNil(t, c.nhc("blue").Status.InFlightRemediations["master-0"])
		c.endLag()
		c.sleep(time.Minute)
		require.Equal(t, []string{"master-1"}, c.remediated())
	})
}

// TestDeletionUnseen: while the watch of Nodes is late, a live read shows that the Node is gone, and garbage collection
// deletes the lease that was taken for it. It is not taken again and again until the watch shows that, too (spec P3, 5.4).
func TestDeletionUnseen(t *testing.T) {
	t.Parallel()
	withNHC(t, func(t *testing.T, c *cluster) {
		c.createNode("worker-0", corev1.ConditionTrue)
		c.sleep(time.Minute)
		c.beginLag(nodes, 25*time.Second)
		c.setReady("worker-0", corev1.ConditionUnknown)
		c.sleep(20 * time.Second)
		c.server.Delete("cloud", nodes, memapi.Key{Name: "worker-0"})
		before := len(c.server.Requests(0))
		for range 300 {
			c.sleep(100 * time.Millisecond)
			c.collectGarbage()
		}
		taken := 0
		for _, request := range c.server.Requests(before) {
			if request.Resource == leases && request.Verb == "create" {
				taken++
			}
		}
		require.Positive(t, taken)
		require.Less(t, taken, 15)
		require.Empty(t, c.crs())
		c.endLag()
		c.sleep(time.Minute)
	})
}

// TestTemplateReplacedWhileCreating: the template is replaced by one of another kind before any cache shows the CR of the
// first one. That is found all the same, so no second CR is created (spec 6.8, P9; seed 3001958).
func TestTemplateReplacedWhileCreating(t *testing.T) {
	t.Parallel()
	withNHC(t, func(t *testing.T, c *cluster) {
		references := c.references()
		c.createNode("worker-0", corev1.ConditionTrue)
		c.deny("update nodehealthchecks", true)
		c.disturb("status cannot be written", 2*time.Minute)
		c.beginLag(c.kinds[0].crs(), 20*time.Second)
		c.setReady("worker-0", corev1.ConditionUnknown)
		c.sleep(5 * time.Second)
		require.Len(t, c.crs(), 1)
		c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = &references[len(references)-1] })
		c.deny("update nodehealthchecks", false)
		c.endLag()
		c.sleep(time.Minute)
		require.Len(t, c.crs(), 1, "P9: the first one is still there")
		require.Len(t, c.nhc("blue").Status.UnhealthyNodes, 1)
		require.Len(t, c.nhc("blue").Status.UnhealthyNodes[0].Remediations, 1, "18.3")
	})
}

// TestCreationIsReported: events report a CR on its node, also if status has never shown it (spec 19.1).
func TestCreationIsReported(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(c *cluster){
		"its NodeHealthCheck is deleted": func(c *cluster) { c.server.Delete("user", nhcs, memapi.Key{Name: "blue"}) },
		"another user deletes it": func(c *cluster) {
			cr := c.crs()[0]
			c.server.Modify("user", c.of(cr).crs(), keyOf(cr), func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/unfinished"}) })
			c.server.Delete("user", c.of(cr).crs(), keyOf(cr))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withNHC(t, func(t *testing.T, c *cluster) {
				c.deny("update nodehealthchecks", true)
				c.disturb("status cannot be written", 2*time.Minute)
				c.setReady("master-0", corev1.ConditionUnknown)
				c.sleep(5 * time.Second)
				require.Equal(t, []string{"master-0"}, c.remediated())
				act(c)
				c.sleep(5 * time.Second)
				c.deny("update nodehealthchecks", false)
				c.settle(5 * time.Minute)
			})
		})
	}
}

// TestConfirmationUnread: a new process leaves the confirmation of a node as long as it does not know whether another
// NodeHealthCheck has a CR for it, also if no status names one (spec 16.6, P5).
func TestConfirmationUnread(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(c *cluster, crs schema.GroupVersionResource){
		"the list takes a while": func(c *cluster, crs schema.GroupVersionResource) {
			c.replaceUnread(crs, 5*time.Second)
			c.sleep(3 * time.Second)
		},
		"lists fail": func(c *cluster, crs schema.GroupVersionResource) {
			c.loseLeader()
			c.failLists(crs)
			c.sleep(2 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testConfirmationUnread(t, hide)
		})
	}
}

// testConfirmationUnread has a new process for which something hides the CRs of a kind.
func testConfirmationUnread(t *testing.T, hide func(c *cluster, crs schema.GroupVersionResource)) {
	t.Helper()
	withNHC(t, func(t *testing.T, c *cluster) {
		confirmed := func() bool {
			_, has := c.node("master-0").GetAnnotations()[v1alpha1.AnnotationManuallyConfirmedHealthy]
			return has
		}
		kind := &c.kinds[len(c.kinds)-1]
		references := c.references()
		c.addNHC("amber")
		c.changeSpec("amber", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = &references[len(references)-1] })
		c.changeSpec("blue", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"amber comes first"} })
		c.sleep(inTime)
		c.deny("update nodehealthchecks", true)
		c.disturb("status cannot be written", 5*time.Minute)
		c.setReady("master-0", corev1.ConditionUnknown)
		c.sleep(5 * time.Second)
		require.Len(t, c.crs(), 1)
		cr := c.crs()[0]
		c.server.Modify("user", kind.crs(), keyOf(cr), func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.com/unfinished"}) })
		c.heal("master-0")
		c.changeNode("master-0", func(node *unstructured.Unstructured) {
			setEntry(node, "annotations", v1alpha1.AnnotationManuallyConfirmedHealthy, "")
		})
		c.sleep(inTime)
		require.True(t, confirmed())

		hide(c, kind.crs())
		require.True(t, confirmed(), "16.6: there may be a CR")
		c.deny("list "+kind.crs().Resource, false)
		c.sleep(time.Minute)
		require.True(t, confirmed(), "16.6: there is a CR")
		c.changeCR(cr, func(object *unstructured.Unstructured) { object.SetFinalizers(nil) })
		c.sleep(inTime)
		require.False(t, confirmed(), "16.6: there is none any more")
	})
}
