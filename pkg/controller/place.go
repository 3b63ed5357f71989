// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
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
	// until ends the claim of an attempt whose outcome is not known.
	until time.Time
}

// uncertainFor is how long a place is kept for a CR of which nobody knows whether it
// was created: by then, the caches show it if it was.
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

// placeFree tells whether nobody but the node has the place, and drops claims that have
// served their purpose. c.place.mu must be held.
func (c *Controller) placeFree(node string, now time.Time) bool {
	for nhc, claim := range c.place.claims {
		seen := false
		if claim.version != "" {
			store, watched := c.remediations.StoreOf(claim.resource)
			seen = !watched || !staleness.Behind(store, claim.version)
		}
		if seen || (!claim.until.IsZero() && !now.Before(claim.until)) {
			delete(c.place.claims, nhc)
		}
	}
	return (len(c.place.claims) == 0 || c.place.node == node) && !c.placeTaken(node)
}

// settlePlace ends the claim of a NodeHealthCheck after it has acted, but for a CR that
// exists, or may exist, unseen by the caches.
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
				c.place.claims[nhc] = claim{resource: mapping.Resource.GroupResource(), version: created.ResourceVersion}
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
		c.enqueue(c.waiting.on(controlPlanePlace))
	}
}

// placeTaken tells whether any other control plane node is under remediation, or
// whether that cannot be told yet.
func (c *Controller) placeTaken(node string) bool {
	nhcs, err := c.nhcs.List(labels.Everything())
	if err != nil {
		return true
	}
	for _, nhc := range nhcs {
		_, kinds := wantedKinds(nhc)
		for kind := range kinds {
			indexer, err := c.remediations.Cache(kind)
			switch {
			case err == nil:
				if c.cacheHasPlace(indexer, node) {
					return true
				}
			case onlyPending(err):
				return true
			case c.remediations.Gone(kind): // And so are its CRs.
			case c.statusHasPlace(nhc, kind, node):
				return true
			}
		}
	}
	return false
}

// cacheHasPlace tells whether a cache has a CR that takes the place from node.
func (c *Controller) cacheHasPlace(indexer cache.Indexer, node string) bool {
	takes := func(cr *remediation.CR) bool {
		if cr.Node() == node {
			return false
		}
		_, err := c.nodes.Get(cr.Node())
		return err == nil || !cr.Deleting()
	}
	labelled, err := listCRs(indexer, byControlPlane, labelledControlPlane)
	if err != nil {
		return true
	}
	if slices.ContainsFunc(labelled, takes) {
		return true
	}
	controlPlane, err := c.nodeStore.ByIndex(nodesByRole, roleControlPlane)
	if err != nil {
		return true
	}
	for _, object := range controlPlane {
		name, err := cache.ObjectToName(object)
		if err != nil {
			continue
		}
		crs, err := listCRs(indexer, byNode, name.Name)
		if err != nil {
			return true
		}
		if slices.ContainsFunc(crs, takes) {
			return true
		}
	}
	return false
}

// statusHasPlace tells whether a NodeHealthCheck has a CR of a kind that cannot be
// read, for a control plane node other than this one.
func (c *Controller) statusHasPlace(nhc *v1alpha1.NodeHealthCheck, kind schema.GroupVersionKind, node string) bool {
	for i := range nhc.Status.UnhealthyNodes {
		entry := &nhc.Status.UnhealthyNodes[i]
		if entry.Name == node || !slices.ContainsFunc(entry.Remediations, func(cr v1alpha1.Remediation) bool { return cr.Resource.GroupVersionKind() == kind }) {
			continue
		}
		if other, err := c.nodes.Get(entry.Name); err == nil && isControlPlane(other) {
			return true
		}
	}
	return false
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
