// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// longestSync is how long a sync that has written a lease may take until it creates the
// CR: requests that hang are given up before.
const longestSync = 40 * time.Second

// judgeCreation judges a CR that the controller has created.
func (c *court) judgeCreation(event change, cr *CR) {
	c.figures.Creations++
	if len(cr.Owners) == 0 {
		c.charge(cr.Node, "", finding{"11.3", "a CR without owner"})
		return
	}
	w := c.creationWindow(event, cr)
	before := event.rv - 1
	findings := c.hindrances(w)
	findings = append(findings, c.leaseHeld(w), c.unique(w, cr), c.placeFree(w, before), c.quorum(w))
	findings = append(findings, c.stepInTurn(w, cr)...)
	c.charge(cr.Node, w.nhc, findings...)
}

// creationWindow returns what the sync that created a CR may have gone by.
func (c *court) creationWindow(event change, cr *CR) window {
	w := window{nhc: cr.Owners[0], node: cr.Node, rv: event.rv}
	key := requestKey("create", event.resource.Resource, cr.Namespace, cr.Name)
	sent, known := c.audit.last(key, time.Time{}, event.seen)
	sight := c.sightAt(event.seen)
	w.at = sent
	if !known || event.seen.Sub(sent) > longestSync {
		c.figures.Unaudited++
		w.at, sent = event.seen, event.seen.Add(-sight.Look)
	}
	w.first = !c.anyStanding(w, cr)
	began := sent.Add(-sight.Sync)
	if acquired, ok := c.acquired(w); ok && w.first && acquired.After(began) {
		began = acquired // Or the lease is one of an earlier sync.
	}
	w.sees = began.Add(-sight.Cache)
	w.looked = sent.Add(-sight.Look)
	if looked, ok := c.audit.lastOf(requestKey("get", "nodes", "", cr.Node), c.selectors(w), sent); ok && looked.After(w.sees) {
		w.looked = looked
	}
	return w
}

// anyStanding reports whether the node was under remediation by another CR that was not
// being deleted.
func (c *court) anyStanding(w window, created *CR) bool {
	for _, cr := range c.crsAt(w.node, w.rv) {
		if cr.UID != created.UID && cr.OwnedBy(w.nhc) && !cr.Deleting {
			return true
		}
	}
	return false
}

// acquired returns when the NodeHealthCheck acquired the lease of the node, which is
// the time of the sync that decided on a first CR (spec 14.2).
func (c *court) acquired(w window) (time.Time, bool) {
	var last time.Time
	for _, lease := range c.leasesDuring(w.node, w.at, w.rv) {
		if holderOf(lease) == holderPrefix+w.nhc && lease.Spec.AcquireTime != nil && !lease.Spec.AcquireTime.After(w.at) && lease.Spec.AcquireTime.After(last) {
			last = lease.Spec.AcquireTime.Time
		}
	}
	return last, w.at.Sub(last) < longestSync
}

// selectors returns the number of NodeHealthChecks that may have looked at the node.
func (c *court) selectors(w window) int {
	node := c.nodes[w.node].at(w.rv)
	count := 0
	for _, versions := range c.nhcs {
		if nhc := versions.at(w.rv); nhc != nil && node != nil && nhc.Selects(node) {
			count++
		}
	}
	return max(1, count)
}

// leaseHeld reports whether the lease was held at some time of the sync (spec 14.2).
func (c *court) leaseHeld(w window) finding {
	held := false
	var last *coordinationv1.Lease
	for _, lease := range c.leasesDuring(w.node, w.sees, w.rv) {
		held = held || holderOf(lease) == holderPrefix+w.nhc
		last = lease
	}
	return verdict("14.2", !held, "a CR without the lease, which has holder %q", holderOf(last))
}

// unique reports whether there is another CR of the same step, or a foreign one for the
// same node and template. A CR of the controller's own making is no surprise to it; one
// of somebody else may have come too late to be seen.
func (c *court) unique(w window, created *CR) finding {
	for key, cr := range c.crsAt(w.node, w.rv) {
		same := cr.Kind == created.Kind && cr.Namespace == created.Namespace && (cr.NamesTemplate && cr.Template == created.Template)
		if cr.UID == created.UID || !same {
			continue
		}
		if !cr.ByController && !existed(c.crs[key].during(w.sees, w.rv)) {
			continue
		}
		rule := "11.4"
		if cr.OwnedBy(w.nhc) {
			rule = "P9"
		}
		return finding{rule, created.String() + " is created while " + cr.String() + " exists"}
	}
	return finding{rule: "P9"}
}

// placeFree reports whether another control plane node was under remediation (spec 12.2).
func (c *court) placeFree(w window, before uint64) finding {
	controlPlane := func(node *Node) bool { return node != nil && node.ControlPlane() }
	if !w.first || !all(c.nodes[w.node].during(w.looked, w.rv), controlPlane) {
		return finding{rule: "12.2"}
	}
	for key, versions := range c.crs {
		cr := versions.at(before)
		if cr == nil || cr.Node == w.node || !c.referenced(cr, w) {
			continue
		}
		others := c.nodes[cr.Node].during(w.sees, w.rv)
		takes := cr.ControlPlane || all(others, controlPlane)
		seen := cr.ByController || existed(c.crs[key].during(w.sees, w.rv))
		if takes && seen {
			return finding{"12.2", "control plane node " + w.node + " gets a CR while " + cr.String() + " is for another one"}
		}
	}
	return finding{rule: "12.2"}
}

// quorum reports a first CR for a control plane node that was Ready all the time, although
// too few others can have been (spec 12.5).
func (c *court) quorum(w window) finding {
	member := func(node *Node) bool { return node != nil && node.ControlPlane() }
	ready := func(node *Node) bool { return member(node) && node.Ready() }
	if !w.first || !all(c.nodes[w.node].during(w.looked, w.rv), ready) {
		return finding{rule: "12.5"}
	}
	members, others := 0, 0
	for name, versions := range c.nodes {
		during := versions.during(w.sees, w.rv)
		if all(during, member) {
			members++
		}
		if name != w.node && some(during, ready) {
			others++
		}
	}
	return verdict("12.5", 2*others <= members, "control plane node %s is Ready, and so are %d others of %d", w.node, others, members)
}

// referenced reports whether some NodeHealthCheck referred to the kind of a CR all the
// time.
func (c *court) referenced(cr *CR, w window) bool {
	for _, versions := range c.nhcs {
		if all(versions.during(w.sees, w.rv), func(nhc *NHC) bool {
			if nhc == nil {
				return false
			}
			for _, s := range stepsOf(nhc) {
				if s.kind() == cr.Kind {
					return true
				}
			}
			return false
		}) {
			return true
		}
	}
	return false
}

// stepInTurn reports whether a CR is of the step whose turn it is (spec 13.1, 13.2, P9),
// by any version of the NodeHealthCheck.
func (c *court) stepInTurn(w window, created *CR) []finding {
	var findings []finding
	for _, nhc := range c.nhcs[w.nhc].during(w.sees, w.rv) {
		if nhc == nil {
			continue
		}
		if findings = c.turnOf(w, nhc, created).findings(created); !broken(findings) {
			return findings
		}
	}
	return findings
}

func broken(findings []finding) bool {
	for _, f := range findings {
		if f.text != "" {
			return true
		}
	}
	return false
}
