// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// longestSync is how long a sync that has written a lease may take until it creates the
// CR: requests that hang are given up before.
const longestSync = 40 * time.Second

// judgeCreation judges a CR that the controller has created.
func (j *Judge) judgeCreation(event Change, cr *CR, by *Request) {
	j.figures.Creations++
	if len(cr.Owners) == 0 {
		j.record(cr.Node, "", finding{"11.3", "a CR without owner"})
		return
	}
	w := j.creationWindow(event, cr, by)
	before := event.ResourceVersion - 1
	findings := j.constraints(w)
	findings = append(findings, j.readLive(w), j.leaseHeld(w), j.unique(w, cr), j.foreign(w, cr), j.unclaimed(w), j.machinesLeaveSlot(w), j.slotFree(w, before), j.quorum(w))
	findings = append(findings, j.stepInOrder(w, cr)...)
	if w.first {
		findings = append(findings, j.budgetsAllow(w)...)
	}
	j.record(cr.Node, w.nhc, findings...)
}

// creationWindow returns the window of the sync that created a CR.
func (j *Judge) creationWindow(event Change, cr *CR, by *Request) window {
	w := window{nhc: cr.Owners[0], node: cr.Node, rv: event.ResourceVersion, at: by.Time, logged: j.loggedAction(by, cr.Owners[0], cr.Node)}
	tolerance := j.toleranceAt(by)
	w.first = !j.anyStanding(w, cr, w.at.Add(-tolerance.Cache))
	began := w.at.Add(-tolerance.Sync)
	if acquired, ok := j.acquired(w); ok && w.first && acquired.After(began) {
		began = acquired // Or the lease is one of an earlier sync.
	}
	w.known = began.Add(-tolerance.Cache)
	w.nodeKnown = j.nodeRead(w, by)
	return w
}

// nodeRead returns when the Node was read live before a request.
func (j *Judge) nodeRead(w window, by *Request) time.Time {
	if read, ok := j.requests.lastOf(requestKey("get", Nodes.Resource, "", w.node), j.selectors(w), w.at); ok && read.After(w.known) {
		return read
	}
	return w.at.Add(-j.toleranceAt(by).LiveRead)
}

// readLive reports whether the Node was read live before the CR was created (spec 5.4).
func (j *Judge) readLive(w window) finding {
	_, read := j.requests.lastOf(requestKey("get", Nodes.Resource, "", w.node), 1, w.at)
	return check("5.4", !read, "a CR is created, and the Node was never read live")
}

// anyStanding reports whether the caches may have shown since an instant that the node was under remediation, by
// another CR that was not being deleted.
func (j *Judge) anyStanding(w window, created *CR, since time.Time) bool {
	stands := func(cr *CR) bool {
		return cr != nil && cr.Node == w.node && cr.UID != created.UID && cr.OwnedBy(w.nhc) && !cr.Deleting
	}
	for key := range j.crsOf[w.node] {
		if some(j.crs[key].during(since, w.rv), stands) {
			return true
		}
	}
	return false
}

// acquired returns when the NodeHealthCheck acquired the lease of the node, which is
// the time of the sync that decided on a first CR (spec 14.2).
func (j *Judge) acquired(w window) (time.Time, bool) {
	var last time.Time
	for _, lease := range j.leasesDuring(w.node, w.at, w.rv) {
		if holderOf(lease) == holderPrefix+w.nhc && lease.Spec.AcquireTime != nil && !lease.Spec.AcquireTime.After(w.at) && lease.Spec.AcquireTime.After(last) {
			last = lease.Spec.AcquireTime.Time
		}
	}
	return last, w.at.Sub(last) < longestSync
}

// selectors returns the number of NodeHealthChecks that may have read the node: those that select it, or did
// before it was deleted while a request was on its way.
func (j *Judge) selectors(w window) int {
	nodes, count := j.nodes[w.node].during(w.known, w.rv), 0
	for _, versions := range j.nhcs {
		if nhc := versions.at(w.rv); nhc != nil && some(nodes, func(node *Node) bool { return node != nil && nhc.Selects(node) }) {
			count++
		}
	}
	return max(1, count)
}

// leaseHeld reports whether the lease was held at some time of the sync (spec 14.2).
func (j *Judge) leaseHeld(w window) finding {
	held := false
	var last *coordinationv1.Lease
	for _, lease := range j.leasesDuring(w.node, w.known, w.rv) {
		held = held || holderOf(lease) == holderPrefix+w.nhc
		last = lease
	}
	return check("14.2", !held, "a CR without the lease, which has holder %q", holderOf(last))
}

// unique reports whether there is another own CR of the same step. A CR of the
// controller's own making is no surprise to it.
func (j *Judge) unique(w window, created *CR) finding {
	return j.other("P9", w, created, func(cr *CR) bool { return cr.OwnedBy(w.nhc) })
}

// foreign reports whether there is a foreign CR for the same node and template.
func (j *Judge) foreign(w window, created *CR) finding {
	return j.other("11.4", w, created, func(cr *CR) bool { return !cr.OwnedBy(w.nhc) })
}

// other judges that there is no other CR of some kind for the same node and template. A CR
// of another owner may have come too late for the controller to see it.
func (j *Judge) other(rule string, w window, created *CR, counts func(*CR) bool) finding {
	for key, cr := range j.crsAt(w.node, w.rv) {
		same := cr.Kind == created.Kind && cr.Namespace == created.Namespace && cr.NamesTemplate && cr.Template == created.Template
		if cr.UID == created.UID || !same || !counts(cr) {
			continue
		}
		if cr.ByController || existed(j.crs[key].during(w.known, w.rv)) {
			return finding{rule, created.String() + " is created while " + cr.String() + " exists"}
		}
	}
	return finding{rule: rule}
}

// slotFree reports whether another control plane node was under remediation (spec 12.2).
func (j *Judge) slotFree(w window, before uint64) finding {
	controlPlane := func(node *Node) bool { return node != nil && node.ControlPlane() }
	if !w.first || !all(j.nodes[w.node].during(w.nodeKnown, w.rv), controlPlane) {
		return finding{rule: "12.2"}
	}
	for key, versions := range j.crs {
		cr := versions.at(before)
		if cr == nil || cr.Node == w.node || !j.lookedAt(cr, w) {
			continue
		}
		others := j.nodes[cr.Node].during(w.known, w.rv)
		takes := cr.ControlPlane || all(others, controlPlane)
		seen := cr.ByController || existed(j.crs[key].during(w.known, w.rv))
		if takes && seen {
			return finding{"12.2", "control plane node " + w.node + " gets a CR while " + cr.String() + " is for another one"}
		}
	}
	return finding{rule: "12.2"}
}

// quorum reports a first CR for a control plane node although too few others can have been Ready, or for the
// only one, although it was Ready all the time (spec 12.5).
func (j *Judge) quorum(w window) finding {
	member := func(node *Node) bool { return node != nil && node.ControlPlane() }
	if surely, maybe := j.etcdLabelled(w); surely {
		member = func(node *Node) bool { return node != nil && node.Etcd() }
	} else if maybe {
		return finding{rule: "12.5"}
	}
	ready := func(node *Node) bool { return member(node) && node.Ready() }
	if !w.first || !all(j.nodes[w.node].during(w.known, w.rv), member) {
		return finding{rule: "12.5"}
	}
	members, others := 0, 0
	for name, versions := range j.nodes {
		during := versions.during(w.known, w.rv)
		if all(during, member) {
			members++
		}
		if name != w.node && some(during, ready) {
			others++
		}
	}
	alone := members <= 1 && !all(j.nodes[w.node].during(w.known, w.rv), ready)
	return check("12.5", 2*others <= members && !alone, "control plane node %s gets a CR, and %d others of %d are Ready", w.node, others, members)
}

// etcdLabelled reports whether a node had the label of etcd all the time, or at any time.
func (j *Judge) etcdLabelled(w window) (surely, maybe bool) {
	etcd := func(node *Node) bool { return node != nil && node.Etcd() }
	for _, versions := range j.nodes {
		during := versions.during(w.known, w.rv)
		surely, maybe = surely || all(during, etcd), maybe || some(during, etcd)
	}
	return surely, maybe
}

// lookedAt reports whether the controller looks at the kind of a CR for certain: it has created the CR, whatever
// specs name (spec 6.8), or some NodeHealthCheck referred to the kind all the time.
func (h *history) lookedAt(cr *CR, w window) bool {
	if cr.ByController {
		return true
	}
	for _, versions := range h.nhcs {
		if all(versions.during(w.known, w.rv), func(nhc *NHC) bool {
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

// stepInOrder reports whether a CR is of the step that is due (spec 13.1, 13.2, P9), and
// whether the last one was told to stop before (spec 13.3), by any version of the
// NodeHealthCheck.
func (j *Judge) stepInOrder(w window, created *CR) []finding {
	var findings []finding
	for _, nhc := range j.nhcs[w.nhc].during(w.known, w.rv) {
		if nhc == nil {
			continue
		}
		order := j.stepOrderOf(w, nhc, created)
		findings = order.findings(created)
		if order.step >= 0 {
			findings = append(findings, j.lastsForStep(w, order.steps[order.step]), j.toldBefore(w, order))
		}
		if !broken(findings) {
			return findings
		}
	}
	return findings
}

// toldBefore reports whether the CR of the step before was told to stop when the next one
// began (spec 13.3 to 13.5).
func (j *Judge) toldBefore(w window, order *stepOrder) finding {
	if order.step == 0 {
		return finding{rule: "13.3"}
	}
	var before *CR // The oldest one (spec 11.8).
	var key string
	crs := j.crsAt(w.node, w.rv-1)
	for _, k := range slices.Sorted(maps.Keys(crs)) {
		cr := crs[k]
		if cr.OwnedBy(w.nhc) && !cr.Deleting && stepOf(order.steps, cr) == order.step-1 && (before == nil || cr.olderThan(before)) {
			before, key = cr, k
		}
	}
	if before == nil || before.Marked || j.recordedTimeouts(w)[before.UID] || j.requests.deniedSince(key, w.known, w.at) {
		return finding{rule: "13.3"}
	}
	succeeded := some(j.crs[key].during(w.known, w.rv), func(version *CR) bool { return version != nil && version.Succeeded == "True" })
	return check("13.3", !succeeded, "step %d begins and %s is not told to stop", order.step, before)
}

func broken(findings []finding) bool {
	return slices.ContainsFunc(findings, func(f finding) bool { return f.text != "" })
}
