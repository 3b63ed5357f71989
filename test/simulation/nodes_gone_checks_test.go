// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
)

// shareCR gives the only CR a further owner, as one with a Machine has.
func (c *cluster) shareCR() {
	cr := c.crs()[0]
	machine := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: cr.Node, UID: c.node(cr.Node).GetUID()}
	c.server.Modify("user", c.of(cr).crs(), keyOf(cr), func(object *unstructured.Unstructured) {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), machine))
	})
}

// removeNHC deletes a NodeHealthCheck, also if it has CRs.
func (c *cluster) removeNHC(name string) {
	key := memapi.Key{Name: name}
	c.server.Modify("user", nhcs, key, func(nhc *unstructured.Unstructured) { setEntry(nhc, "annotations", v1alpha1.AnnotationAllowDelete, "") })
	c.server.Delete("user", nhcs, key)
}

// TestSharedCRsOfAFormerCheck: a CR with a further owner goes with its NodeHealthCheck, also if that was created again
// before a sync, or if the answer to its creation is late (spec 4.8).
func TestSharedCRsOfAFormerCheck(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(c *cluster){
		"it is created again unseen": func(c *cluster) {
			c.sleep(2 * inTime)
			c.shareCR()
			c.sleep(inTime)
			c.disturb("a lost watch", 10*time.Second)
			c.leader().client.EndWatches(nhcs, true)
			c.removeNHC("blue")
			c.addNHC("blue")
			c.sleep(100 * time.Millisecond)
		},
		"no process was there": func(c *cluster) {
			c.sleep(2 * inTime)
			c.shareCR()
			c.loseLeader()
			c.removeNHC("blue")
			c.addNHC("blue")
			c.elect()
			c.sleep(100 * time.Millisecond)
		},
		"nor is it created again": func(c *cluster) {
			c.sleep(2 * inTime)
			c.shareCR()
			c.loseLeader()
			c.removeNHC("blue")
			c.elect()
			c.sleep(10 * time.Second)
			require.Empty(c.t, c.crs())
			c.addNHC("blue")
		},
		"its answer is late": func(c *cluster) {
			c.disturb("a late answer", 10*time.Second)
			c.slowRequests("answer to create "+c.kinds[0].crs().Resource, 8*time.Second)
			c.sleep(5 * time.Second)
			c.shareCR()
			c.removeNHC("blue")
			c.addNHC("blue")
			c.sleep(100 * time.Millisecond)
			c.slowRequests("answer to create "+c.kinds[0].crs().Resource, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withNHC(t, func(t *testing.T, c *cluster) {
				c.createNode("worker-0", corev1.ConditionTrue)
				c.sleep(inTime)
				c.unready("worker-0")
				replace(c)
				c.collectGarbage()
				c.sleep(time.Minute)
				require.Len(t, c.crs(), 1)
				require.Len(t, c.crs()[0].Owners, 1)
				require.Equal(t, v1alpha1.DecidedStepRunning, c.decided("worker-0"))
			})
		})
	}
}

// TestRenamedCheck: the lease of a node goes with the last CR of a NodeHealthCheck that is gone, so that another one
// begins at once; not while its remediator is at work, nor while a kind of CRs cannot be read (spec 14.9).
func TestRenamedCheck(t *testing.T) {
	t.Parallel()
	for name, rename := range map[string]func(c *cluster){
		"at once": func(c *cluster) { c.removeNHC("blue") },
		"unseen": func(c *cluster) {
			c.loseLeader()
			c.removeNHC("blue")
			c.collectGarbage()
			c.elect()
		},
		"a remediator is at work": func(c *cluster) {
			cr := c.crs()[0]
			setFinalizers := func(finalizers ...string) {
				c.server.Modify("remediator", c.of(cr).crs(), keyOf(cr), func(object *unstructured.Unstructured) { object.SetFinalizers(finalizers) })
			}
			setFinalizers(finalizer)
			c.removeNHC("blue")
			c.collectGarbage()
			c.sleep(time.Minute)
			require.NotNil(c.t, c.lease("worker-0"))
			require.Equal(c.t, v1alpha1.DecidedLeaseTaken, c.entry("amber", "worker-0").Decision.Reason)
			setFinalizers()
		},
		"a kind cannot be read": func(c *cluster) {
			c.loseLeader()
			c.removeNHC("blue")
			c.collectGarbage()
			c.failLists(c.kinds[len(c.kinds)-1].crs())
			c.elect()
			c.sleep(time.Minute)
			require.NotNil(c.t, c.lease("worker-0"))
			c.deny("list "+c.kinds[len(c.kinds)-1].crs().Resource, false)
			c.sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withNHC(t, func(t *testing.T, c *cluster) {
				c.createNode("worker-0", corev1.ConditionTrue)
				c.sleep(inTime)
				c.unready("worker-0")
				c.sleep(2 * inTime)
				references := c.references()
				c.addNHC("amber")
				c.changeSpec("amber", func(spec *v1alpha1.NodeHealthCheckSpec) { spec.RemediationTemplate = &references[len(references)-1] })
				c.sleep(inTime)
				require.Len(t, c.crs(), 1)
				rename(c)
				c.sleep(100 * time.Millisecond)
				c.collectGarbage()
				c.sleep(2 * inTime)
				require.Len(t, c.crs(), 1)
				require.Equal(t, []string{"amber"}, c.crs()[0].Owners)
			})
		})
	}
}
