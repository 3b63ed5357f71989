// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/staleness"
)

// place is the one place for a control plane node under remediation in the whole
// cluster (spec 12.2). The CRs say who has it; claims bridge the time until the caches
// show the CR of the node that has just taken it. All syncs share it.
type place struct {
	mu sync.Mutex
	// node has the place as long as there are claims.
	node string
	// claims are those of the NodeHealthChecks that remediate the node: several may
	// try, and the lease of the node decides.
	claims map[string]claim
}

// claim is held by a NodeHealthCheck from before it creates a CR until the caches have
// seen that CR.
type claim struct {
	// resource and version are those of the created CR, empty before that.
	resource schema.GroupResource
	version  string
	// until ends the claim of an attempt whose outcome is not known, or whose CR is of a
	// kind that is not watched, so that no cache will show it.
	until time.Time
}

// uncertainFor is how long a place is kept for a CR that may have been created: by then,
// the caches show it if it was.
const uncertainFor = time.Minute

// reserve takes the place for a node of a NodeHealthCheck, if nobody else has it.
func (c *Controller) reserve(nhc, node string, now time.Time) bool {
	c.place.mu.Lock()
	defer c.place.mu.Unlock()
	if !c.placeFree(node, now) {
		return false
	}
	if c.place.claims == nil {
		c.place.claims = map[string]claim{}
	}
	c.place.node = node
	if _, claimed := c.place.claims[nhc]; !claimed {
		c.place.claims[nhc] = claim{}
	}
	return true
}

// placeIsFree tells whether a node could have the place at the moment.
func (c *Controller) placeIsFree(node string, now time.Time) bool {
	c.place.mu.Lock()
	defer c.place.mu.Unlock()
	return c.placeFree(node, now)
}

// placeFree reports whether no other node has the place, and drops claims that have served
// their purpose. c.place.mu must be held.
func (c *Controller) placeFree(node string, now time.Time) bool {
	c.dropSeenClaims()
	for nhc, claim := range c.place.claims {
		_, watched := c.remediations.StoreOf(claim.resource)
		if !claim.until.IsZero() && !now.Before(claim.until) && (claim.version == "" || !watched) {
			delete(c.place.claims, nhc)
		}
	}
	return (len(c.place.claims) == 0 || c.place.node == node) && !c.placeTaken(node)
}

// dropSeenClaims drops the claims of CRs that the caches show. c.place.mu must be held.
func (c *Controller) dropSeenClaims() {
	for nhc, claim := range c.place.claims {
		if store, watched := c.remediations.StoreOf(claim.resource); watched && claim.version != "" && !staleness.Behind(store, claim.version) {
			delete(c.place.claims, nhc)
		}
	}
}

// settlePlace ends the claim of a NodeHealthCheck after it has acted, but for a CR that
// exists, or may exist, unseen by the caches. Now is when it has acted, not when it began:
// in between, minutes may have passed.
func (c *Controller) settlePlace(nhc string, plans []remediation.NodePlan, outcomes []remediation.Outcome, now time.Time) {
	c.place.mu.Lock()
	defer c.place.mu.Unlock()
	held, claimed := c.place.claims[nhc]
	if !claimed {
		return
	}
	for i := range plans {
		if plans[i].Node.Name != c.place.node {
			continue
		}
		unknown := outcomes[i].Unknown
		if created := outcomes[i].Created; created != nil {
			mapping, err := c.locate(created.GroupVersionKind())
			if err == nil {
				c.place.claims[nhc] = claim{resource: mapping.Resource.GroupResource(), version: created.ResourceVersion, until: now.Add(uncertainFor)}
				return
			}
			unknown = true
		}
		if unknown && held.version == "" {
			c.place.claims[nhc] = claim{until: now.Add(uncertainFor)}
			return
		}
	}
	if held.version == "" && held.until.IsZero() {
		delete(c.place.claims, nhc)
		for _, waiter := range c.waiters.of(controlPlaneSlot) {
			c.queue.AddAfter(cache.ObjectName{Name: waiter}, raceRetry)
		}
	}
}

// takePlace decides, for the control plane nodes whose turn it would be, which may
// have the place: the first by name that gets it, that etcd can do without, and for
// which nothing else is in the way. An attempt of one node is no news of another that
// could not begin anyway.
func (c *Controller) takePlace(ctx context.Context, nhc *v1alpha1.NodeHealthCheck, w *world, now time.Time) {
	var next []*remediation.Node
	for i := range w.nodes {
		node := &w.nodes[i]
		if !node.ControlPlane || node.Verdict.State != health.Unhealthy || len(node.Own) > 0 || node.Circumstances.Refusal(true) != "" {
			continue
		}
		if node.PlaceTaken = !c.placeIsFree(node.Name, now); !node.PlaceTaken && w.mayBegin(nhc, node, now) {
			next = append(next, node)
		}
	}
	for _, node := range next {
		switch {
		case !c.placeIsFree(node.Name, now):
			node.PlaceTaken = true
		case !c.etcdAllows(ctx, node.Name):
			node.EtcdRefuses = true
		case c.placeTakenLive(ctx, node.Name): // Last: it costs a list of all CRs.
			node.PlaceTaken = true
		default:
			node.PlaceTaken = !c.reserve(nhc.Name, node.Name, now)
		}
	}
}

// mayBegin tells whether a node that had the place would get its CR: it does not while
// others hold its lease, for example, or before a failed attempt is due again.
func (w *world) mayBegin(nhc *v1alpha1.NodeHealthCheck, node *remediation.Node, now time.Time) bool {
	plan := w.newScript(nhc).Plan(*node, now)
	return begins(&plan)
}
