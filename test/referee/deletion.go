// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Excuse means that somebody else than the controller deletes a CR: it is not judged
// who was right.
func (r *Referee) Excuse(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused.Insert(uid)
}

// judgeDeletion judges the deletion of a CR, if the audit log has a request of the
// controller for it (spec 16.1, 16.4, 17.2, 7.5).
func (c *court) judgeDeletion(event change, cr *CR) {
	key := requestKey("delete", event.resource.Resource, cr.Namespace, cr.Name)
	// A creationTimestamp is cut to whole seconds, so this is not too late.
	sent, requested := c.audit.last(key, cr.Created, event.seen)
	if !requested || c.excused.Has(cr.UID) || len(cr.Owners) == 0 {
		return
	}
	c.figures.Deletions++
	sight := c.sightAt(event.seen)
	w := window{nhc: cr.Owners[0], node: cr.Node, rv: event.rv, at: sent, sees: sent.Add(-sight.Sync - sight.Cache)}
	c.charge(cr.Node, w.nhc, c.recovered(w, cr), c.delayOver(w, sight))
}

// recovered reports whether the node was healthy or gone by what the sync may have gone
// by.
func (c *court) recovered(w window, cr *CR) finding {
	versions := c.nhcs[w.nhc].during(w.sees, w.rv)
	fine := some(c.nodes[w.node].during(w.sees, w.rv), func(node *Node) bool {
		return node == nil || some(versions, func(nhc *NHC) bool { return nhc == nil || !Matches(nhc.Spec.UnhealthyConditions, node) })
	})
	return verdict("16.1", !fine, "%s is deleted though the node is neither healthy nor gone", cr)
}

// delayOver reports whether healthyDelay permitted a deletion (spec 16.4 to 16.6).
func (c *court) delayOver(w window, sight Sight) finding {
	versions := c.nhcs[w.nhc].during(w.sees, w.rv)
	confirmed := func(node *Node) bool {
		if node == nil {
			return true
		}
		_, says := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
		return says
	}
	if some(c.nodes[w.node].during(w.sees, w.rv), confirmed) {
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
		if since := c.healthySince(w, versions); !w.at.Before(since.Add(delay - sight.Cache)) {
			return finding{rule: "16.4"}
		}
	}
	return finding{"16.4", "a CR is deleted before healthyDelay is over"}
}

// healthySince returns since when the node had been healthy without interruption.
func (c *court) healthySince(w window, versions []*NHC) time.Time {
	var since time.Time
	for _, version := range c.nodes[w.node] {
		if version.rv > w.rv {
			break
		}
		sick := version.object == nil || all(versions, func(nhc *NHC) bool {
			return nhc != nil && Matches(nhc.Spec.UnhealthyConditions, version.object)
		})
		switch {
		case sick:
			since = time.Time{}
		case since.IsZero():
			since = version.seen
		}
	}
	return since
}

// confirmationRemoved judges that the annotation manually-confirmed-healthy was taken
// off a Node, which nobody but the controller does (spec 16.6).
func (c *court) confirmationRemoved(before, after *Node, event change) finding {
	_, had := before.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	_, has := after.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	if !had || has {
		return finding{rule: "16.6"}
	}
	sight := c.sightAt(event.seen)
	since := event.seen.Add(-sight.Sync - sight.Cache)
	for key := range c.crsOf[event.key] {
		if existed(c.crs[key].during(since, event.rv)) {
			return finding{"16.6", "the confirmation is removed while a CR is left"}
		}
	}
	healthy := some(c.nodes[event.key].during(since, event.rv), func(node *Node) bool {
		if node == nil {
			return true
		}
		for _, track := range c.nhcs { // It need not be selected any more (spec 17.5).
			if some(track.during(since, event.rv), func(nhc *NHC) bool { return nhc != nil && !Matches(nhc.Spec.UnhealthyConditions, node) }) {
				return true
			}
		}
		return false
	})
	return verdict("16.6", !healthy, "the confirmation is removed though the node is not healthy")
}

// takenOver judges a change of the holder of a lease: one that is valid is respected
// (spec 14.3, 14.4). It was written before it was seen.
func takenOver(before, after *coordinationv1.Lease, seen time.Time) finding {
	holder, taker := holderOf(before), holderOf(after)
	if taker == holder || !strings.HasPrefix(taker, holderPrefix) {
		return finding{rule: "14.4"}
	}
	valid := LeaseValid(before, seen) && before.Spec.RenewTime.Before(after.Spec.RenewTime)
	return verdict("14.4", valid, "%s takes a valid lease of %q", taker, holder)
}
