// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// A twin of the walk begins reaction after something has ended, and leads for a moment only: what wakes the leader
// meanwhile would hide that it slept.
const reaction, moment = 2 * time.Second, 5 * time.Second

// awaiting are the reasons of decisions that the end of something else changes.
var awaiting = sets.New(v1alpha1.DecidedControlPlaneBusy, v1alpha1.DecidedEtcdQuorum, v1alpha1.DecidedForeignRemediation, v1alpha1.DecidedLeaseTaken,
	v1alpha1.DecidedAwaitingDeletion, v1alpha1.DecidedBudgetExhausted, v1alpha1.DecidedMachineHealthCheck)

// compareAfterEnd compares the leader with a twin two seconds after something has ended that others wait for: by then the
// leader has to be awake (spec 21.3). A twin cannot know what the leader knows by a wrong clock (spec 7.2), nor which events
// were due while none of the two led.
func (c *cluster) compareAfterEnd() {
	ended := c.lastEnd()
	if ended.IsZero() || !c.undisturbed() || len(c.waits()) == 0 {
		return
	}
	time.Sleep(time.Until(ended.Add(reaction)))
	synctest.Wait()
	if !c.undisturbed() || c.misreportedNodes().Len() > 0 {
		return
	}
	c.twinsLeft--
	c.seen["twins in the walk"]++
	c.compareTwin("after an end", moment)
}

// lastEnd returns when something has ended since the last call, zero if nothing has.
func (c *cluster) lastEnd() (ended time.Time) {
	for _, change := range c.server.Changes(c.looked) {
		c.looked++
		switch {
		case change.Type == watch.Deleted && change.Resource != events, change.User != controllerUser && (change.Resource == leases || change.Resource == budgets):
			ended = change.Time
		}
	}
	return ended
}

// undisturbed reports whether nothing goes wrong.
func (c *cluster) undisturbed() bool {
	quiet := c.quietSince().Before(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	denied := slices.Contains(slices.Collect(maps.Values(c.denied)), true)
	return quiet && !denied && c.deathIn == 0
}

// waiting is a node or Machine, and for what it waits.
type waiting struct {
	name   string
	reason v1alpha1.DecisionReason
}

// waits returns what waits for the end of something.
func (c *cluster) waits() (all []waiting) {
	for _, object := range append(c.server.List(nhcs), c.server.List(mhcs)...) {
		for _, list := range []string{"unhealthyNodes", "unhealthyMachines"} {
			for _, entry := range entriesOf(object.Object, list) {
				one := waiting{fmt.Sprint(entry["name"]), v1alpha1.DecisionReason(fmt.Sprint(fieldsOf(entry, "decision")["reason"]))}
				if awaiting.Has(one.reason) {
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// end ends what something waits for.
func (c *cluster) end(w waiting) {
	c.log("what %s waits for ends: %s", w.name, w.reason)
	switch w.reason {
	case v1alpha1.DecidedLeaseTaken:
		c.server.Delete(maintainer, leases, leaseKey(w.name))
	case v1alpha1.DecidedBudgetExhausted:
		for _, name := range budgetNames {
			c.changeBudget(name, func(spec *nhcv1alpha1.RemediationBudgetSpec) {
				*spec = nhcv1alpha1.RemediationBudgetSpec{Reason: spec.Reason, NodeSelector: spec.NodeSelector, MachineSelector: spec.MachineSelector, MinInterval: &metav1.Duration{Duration: time.Second}}
			})
		}
	default:
		for _, cr := range c.crs() {
			if cr.Node != w.name && strings.HasPrefix(cr.Node, "master") {
				for _, owner := range cr.Owners { // It would be awake, and first.
					c.changeSpec(owner, func(spec *v1alpha1.NodeHealthCheckSpec) { spec.PauseRequests = []string{"others come first"} })
				}
				c.heal(cr.Node)
				c.sleep(time.Second)
			}
			c.letGo(cr)
			if cr.Node == w.name {
				c.server.Delete("somebody", c.of(cr).crs(), keyOf(cr))
			}
		}
	}
}

// anyGone reports whether something is under remediation whose Node or Machine is gone.
func (c *cluster) anyGone() bool {
	for _, cr := range c.crs() {
		named := func(machine *unstructured.Unstructured) bool { return nodeOf(machine) == cr.Node }
		if c.node(cr.Node) == nil || c.machines != nil && !slices.ContainsFunc(c.server.List(c.machines.gvr()), named) {
			return true
		}
	}
	for _, mhc := range c.server.List(mhcs) {
		for _, entry := range entriesOf(mhc.Object, "unhealthyMachines") {
			machine := c.server.Get(c.machines.gvr(), machineKey(fmt.Sprint(entry["name"])))
			if machine == nil || c.node(nodeOf(machine)) == nil {
				return true
			}
		}
	}
	return false
}

// misreportedNodes returns the Nodes that have a time from a wrong clock.
func (c *cluster) misreportedNodes() sets.Set[string] {
	found := sets.New[string]()
	for _, node := range c.server.List(nodes) {
		for _, condition := range entriesOf(node.Object, "conditions") {
			if c.misreported.Has(node.GetName() + " " + fmt.Sprint(condition["lastTransitionTime"])) {
				found.Insert(node.GetName())
			}
		}
	}
	return found
}
