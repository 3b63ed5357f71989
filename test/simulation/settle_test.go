// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// calm takes away everything that goes wrong or blocks a remediation.
func (c *cluster) calm() {
	c.setFaults(0)
	if c.anyLag() {
		c.delayWatches()
	}
	c.mu.Lock()
	c.deathIn = 0
	clear(c.denied)
	c.mu.Unlock()
	for i := range c.kinds {
		c.kinds[i].install(c)
	}
	for _, name := range c.nhcNames() {
		if c.nhc(name).DeletionTimestamp != nil {
			c.deleteNHC(name)
			continue
		}
		c.changeSpec(name, func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.PauseRequests, spec.Mode = nil, ""
			spec.MinHealthy, spec.MaxUnhealthy = new(intstr.FromInt32(0)), nil
			if c.chance(50) {
				spec.StormRecoveryThreshold = nil // It may keep up a storm for ever.
			}
			if spec.HealthyDelay != nil && spec.HealthyDelay.Duration < 0 {
				spec.HealthyDelay = &metav1.Duration{Duration: 5 * time.Minute}
			}
		})
	}
	for _, name := range c.nodeNames() {
		c.changeNode(name, func(node *unstructured.Unstructured) {
			unstructured.RemoveNestedField(node.Object, "metadata", "labels", v1alpha1.LabelExclude)
			unstructured.RemoveNestedField(node.Object, "metadata", "annotations", remediation.AnnotationDesiredConfig)
		})
	}
	if c.machines != nil {
		c.machines.calm()
	}
	c.calmBudgets()
	for _, cr := range c.crs() {
		if len(cr.Owners)+len(cr.Checks) == 0 {
			c.letGo(cr)
			c.server.Delete("somebody", c.of(cr).crs(), keyOf(cr))
		}
	}
	c.elect()
}

// release lets remediators give up CRs that are being deleted, and finish CRs that wait for a
// deleted Node.
func (c *cluster) release() {
	for _, cr := range c.crs() {
		if cr.Deleting || (c.node(cr.Node) == nil && cr.Permanent == "True" && cr.Succeeded == "") {
			r := c.of(cr)
			r.move(c, r, cr)
		}
	}
	c.collectGarbage()
}

// settle lets the controller come to rest. Nothing wakes it but what remediators do.
func (c *cluster) settle(d time.Duration) {
	c.sleep(time.Minute)
	c.settling = true
	for end := time.Now().Add(d); time.Now().Before(end); {
		c.sleep(time.Minute)
		c.release()
	}
	c.settling = false
	c.sleep(3 * time.Second)
	if left := c.judge.Unsettled(time.Now()); len(left) > 0 {
		for i := range left {
			left[i].Text = "did not settle: " + left[i].Text
		}
		panic(broken(left))
	}
	c.checkMetrics()
}

// cure makes all nodes healthy, one after the other: what one of them held back has to go
// on for the next ones.
func (c *cluster) cure() {
	c.endSchedules()
	names := c.nodeNames()
	c.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		c.heal(name)
		c.sleep(oneOf(c, 3*time.Second, 10*time.Second, 40*time.Second))
		c.release()
		c.sleep(3 * time.Second)
	}
	if c.machines != nil {
		c.machines.cure()
	}
}

// checkEmpty checks that nothing is left, and nothing is written any more.
func (c *cluster) checkEmpty() {
	violate := func(rule, node, nhc, text string) {
		panic(broken{rules.Violation{Rule: rule, Node: node, NHC: nhc, Text: text, Timeline: c.judge.Timeline(node, nhc)}})
	}
	for _, cr := range c.crs() {
		hangs := cr.Deleting && c.node(cr.Node) == nil // Its finalizer is not ours.
		awaited := c.node(cr.Node) == nil && cr.Permanent == "True" && cr.Succeeded == "False"
		if !hangs && !awaited && c.refersTo(cr) {
			violate("P12", cr.Node, cr.Owners[0], cr.String()+" is left")
		}
	}
	for _, name := range c.nhcNames() {
		nhc := c.nhc(name)
		for _, episode := range nhc.Status.RemediationHistory {
			pool, every := nhc.Spec.Selector.MatchLabels["pool"]
			if node := c.node(episode.Node); node == nil || (every && node.GetLabels()["pool"] != pool) {
				continue
			}
			remediated := slices.ContainsFunc(c.crs(), func(cr *rules.CR) bool { return cr.Node == episode.Node })
			if episode.Outcome == "" && !remediated {
				violate("23b.1", episode.Node, name, "the episode has not ended")
			}
		}
	}
	for _, lease := range c.server.List(leases) {
		holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
		for _, name := range c.nhcNames() {
			if holder == "NodeHealthCheck-"+name && !c.awaited(lease) {
				violate("14.9", "", name, "lease "+lease.GetName()+" is left")
			}
		}
	}
	before := len(c.server.Requests(0))
	c.sleep(time.Hour)
	for _, request := range c.server.Requests(before) {
		if writes(&request) {
			violate("P3", "", request.Name, request.Verb+" "+request.Resource.Resource+" "+request.Name+" though nothing has changed")
		}
	}
}

// awaited reports whether a lease is for a node that a CR waits for (spec 17.3).
func (c *cluster) awaited(lease *unstructured.Unstructured) bool {
	for _, cr := range c.crs() {
		if leaseKey(cr.Node).Name == lease.GetName() {
			return true
		}
	}
	return false
}

// refersTo reports whether an owner of a CR refers to its kind. The controller does not look
// elsewhere (spec 6.8).
func (c *cluster) refersTo(cr *rules.CR) bool {
	for _, owner := range cr.Owners {
		object := c.server.Get(nhcs, memapi.Key{Name: owner})
		if object == nil {
			continue
		}
		for _, reference := range referencesOf(as[v1alpha1.NodeHealthCheck](object)) {
			if reference.Kind == cr.Kind+"Template" {
				return true
			}
		}
	}
	return false
}
