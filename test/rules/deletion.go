// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// judgeDeletion judges that the controller has deleted a CR (spec 16.1, 16.4, 16.7, 17.2, 7.5).
func (j *Judge) judgeDeletion(event Change, cr *CR, by *Request) {
	if j.left(event, cr) {
		return
	}
	if len(cr.Owners) == 0 {
		j.record(cr.Node, "", finding{"16.1", "a foreign CR is deleted"})
		return
	}
	j.figures.Deletions++
	w := j.windowOf(event, by, cr.Owners[0], cr.Node)
	w.nodeKnown = j.nodeRead(w, by)
	_, read := j.requests.lastOf(requestKey("get", Nodes.Resource, "", cr.Node), 1, w.at)
	j.record(cr.Node, w.nhc, check("16.7", !read, "a CR is deleted, and the Node was never read live"), j.recovered(w, cr), j.delayOver(w, j.toleranceAt(by)), j.replacementAwaited(event, w))
}

// left reports whether only a NodeHealthCheck that is gone owned a CR, until garbage collection removed its reference (spec 4.8).
func (j *Judge) left(event Change, cr *CR) bool {
	for _, v := range slices.Backward(j.crs[event.Resource.Resource+" "+event.Key]) {
		if v.object == nil || v.object.UID != cr.UID || len(v.object.OwnerUIDs) == 0 {
			continue
		}
		for name, uid := range v.object.OwnerUIDs {
			if nhc := j.nhcs[name].at(event.ResourceVersion); nhc != nil && nhc.UID == uid {
				return false
			}
		}
		return true
	}
	return false
}

// replacementAwaited reports whether a remediator that replaces the Node was still at work
// (spec 17.3).
func (j *Judge) replacementAwaited(event Change, w window) finding {
	gone := all(j.nodes[w.node].during(w.known, w.rv), func(node *Node) bool { return node == nil })
	versions := j.crs[event.Resource.Resource+" "+event.Key].during(w.known, w.rv-1)
	awaited := gone && all(versions, func(cr *CR) bool { return cr != nil && cr.Permanent == "True" && cr.Succeeded != "True" })
	return check("17.3", awaited, "a CR is deleted while its remediator replaces the Node")
}

// recovered reports whether the node was healthy or gone in the window of the sync.
func (j *Judge) recovered(w window, cr *CR) finding {
	versions := j.nhcs[w.nhc].during(w.known, w.rv)
	if some(j.nodes[w.node].during(w.nodeKnown, w.rv), func(node *Node) bool { return node == nil }) {
		return finding{rule: "17.2"}
	}
	fine := some(j.nodes[w.node].during(w.nodeKnown, w.rv), func(node *Node) bool {
		return some(versions, func(nhc *NHC) bool { return nhc == nil || !NotHealthy(nhc.Spec.UnhealthyConditions, node) })
	})
	return check("16.1", !fine, "%s is deleted though the node is neither healthy nor gone", cr)
}

// delayOver reports whether healthyDelay permitted a deletion (spec 16.4 to 16.6).
func (j *Judge) delayOver(w window, tolerance Tolerance) finding {
	versions := j.nhcs[w.nhc].during(w.known, w.rv)
	confirmed := func(node *Node) bool {
		if node == nil {
			return true
		}
		_, says := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
		return says
	}
	if some(j.nodes[w.node].during(w.known, w.rv), confirmed) {
		return finding{rule: "16.4"}
	}
	for _, nhc := range versions {
		if nhc == nil || nhc.Spec.HealthyDelay == nil || nhc.Spec.HealthyDelay.Duration == 0 {
			return finding{rule: "16.4"}
		}
		delay := nhc.Spec.HealthyDelay.Duration
		if delay < 0 {
			continue
		}
		if since := j.healthySince(w, versions); !w.at.Before(since.Add(delay - tolerance.Cache - rounding)) {
			return finding{rule: "16.4"}
		}
	}
	return finding{"16.4", "a CR is deleted before healthyDelay is over"}
}

// healthySince returns since when the node had been healthy without interruption.
func (j *Judge) healthySince(w window, versions []*NHC) time.Time {
	var since time.Time
	for _, version := range j.nodes[w.node] {
		if version.rv > w.rv {
			break
		}
		notHealthy := version.object == nil || all(versions, func(nhc *NHC) bool {
			return nhc != nil && NotHealthy(nhc.Spec.UnhealthyConditions, version.object)
		})
		switch {
		case notHealthy:
			since = time.Time{}
		case since.IsZero():
			since = version.seen
		}
	}
	return since
}

// confirmationRemoved judges that the controller has taken the annotation
// manually-confirmed-healthy off a Node (spec 16.6).
func (j *Judge) confirmationRemoved(before, after *Node, event Change, by *Request) finding {
	_, had := before.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	_, has := after.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	if !had || has {
		return finding{rule: "16.6"}
	}
	since := j.windowOf(event, by, "", event.Key).known
	for key := range j.crsOf[event.Key] {
		left := func(cr *CR) bool { return cr != nil && cr.Node == event.Key && j.known(cr, event.ResourceVersion) }
		if all(j.crs[key].during(since, event.ResourceVersion), left) {
			return finding{"16.6", "the confirmation is removed while a CR is left"}
		}
	}
	healthy := some(j.nodes[event.Key].during(since, event.ResourceVersion), func(node *Node) bool {
		if node == nil {
			return true
		}
		for _, track := range j.nhcs { // It need not be selected any more (spec 17.5).
			if some(track.during(since, event.ResourceVersion), func(nhc *NHC) bool { return nhc != nil && !NotHealthy(nhc.Spec.UnhealthyConditions, node) }) {
				return true
			}
		}
		return false
	})
	return check("16.6", !healthy, "the confirmation is removed though the node is not healthy")
}

// known reports whether a NodeHealthCheck that exists has a CR.
func (j *Judge) known(cr *CR, rv uint64) bool {
	for _, owner := range cr.Owners {
		if nhc := j.nhcs[owner].at(rv); nhc != nil {
			return true
		}
	}
	return false
}

// takenOver judges a change of the holder of a lease: the controller respects a valid
// lease (spec 14.3, 14.4). The lease was written before it was seen.
func takenOver(before, after *coordinationv1.Lease, seen time.Time) finding {
	holder, taker := holderOf(before), holderOf(after)
	_, ofCheck := checkOfHolder(taker)
	if taker == holder || (!ofCheck && !strings.HasPrefix(taker, holderPrefix)) {
		return finding{rule: "14.4"}
	}
	valid := LeaseValid(before, seen) && before.Spec.RenewTime.Before(after.Spec.RenewTime)
	return check("14.4", valid, "%s takes a valid lease of %q", taker, holder)
}
