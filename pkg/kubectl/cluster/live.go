// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/dashboard"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

const (
	// settleTime is how long a Cluster waits for further changes: most come in groups.
	settleTime = 100 * time.Millisecond
	// interval is the shortest time between two states.
	interval = time.Second
	// renewalInterval is how often the lease of the leader is looked at: its renewals are no news.
	renewalInterval = 5 * time.Second
	// detailsTimeout is how long a page waits for what is read about a node.
	detailsTimeout = 5 * time.Second
	// detailsKept is for how many nodes the details are kept, for the interval.
	detailsKept = 100
)

// Config is what a Cluster needs.
type Config struct {
	Clients *Clients
	// LeaseNamespace is where the leases of nodes are.
	LeaseNamespace string
	Now            func() time.Time
}

// Cluster is a source of a dashboard that follows a cluster.
type Cluster struct {
	Config
	kinds     []kind
	informers []cache.SharedIndexInformer
	running   sync.WaitGroup
	// changed gets a value when the snapshot may have changed since the last one.
	changed chan struct{}

	mu sync.Mutex
	// failing are the errors of kinds whose last request has failed, by resource.
	failing  map[string]error
	state    dashboard.State
	absent   bool          // No controller is at work.
	outdated chan struct{} // Closed when the state is.
	// details has for each node what was read about it, a *nodeDetails.
	details *utilcache.LRUExpireCache
}

// nodeDetails is what was read about a node.
type nodeDetails struct {
	details *view.Details
	missing []view.Missing
}

// New reads the cluster, and follows it until the context ends. It waits until it has read what can be read; what cannot is
// tried again and again. It returns an error if that does not work at all.
func New(ctx context.Context, config Config) (*Cluster, error) {
	c := &Cluster{
		Config: config, kinds: Everything.of(config.Clients), changed: make(chan struct{}, 1),
		failing: map[string]error{}, details: utilcache.NewLRUExpireCache(detailsKept),
	}
	var answered []cache.InformerSynced
	for i := range c.kinds {
		k := &c.kinds[i]
		informer, err := c.inform(k)
		if err != nil {
			return nil, err
		}
		c.informers = append(c.informers, informer)
		answered = append(answered, func() bool { return informer.HasSynced() || c.refusal(k) != nil })
	}
	ctx, stop := context.WithCancel(ctx)
	for _, informer := range c.informers {
		c.running.Go(func() { informer.RunWithContext(ctx) })
	}
	var err error
	if cache.WaitForCacheSync(ctx.Done(), answered...) {
		_, err = c.assemble()
	} else {
		err = Explain(context.Cause(ctx), "watch", c.kinds[0].resource)
	}
	if err != nil {
		stop()
		c.running.Wait()
		return nil, err
	}
	context.AfterFunc(ctx, stop)
	c.publish()
	return c, nil
}

// Run publishes what the watch sees until the context of New ends.
func (c *Cluster) Run(ctx context.Context) {
	defer c.running.Wait()
	renewal := time.NewTicker(renewalInterval)
	defer renewal.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renewal.C:
			if !c.renew(c.snapshot().Leader) {
				continue
			}
		case <-c.changed:
			sleep(ctx, settleTime)
		}
		c.publish()
		sleep(ctx, interval)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// renew corrects the leader of the state, and reports whether a controller has begun or ceased to work.
func (c *Cluster) renew(leader *view.Leader) (changed bool) {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	snapshot := *c.state.Snapshot
	snapshot.Leader, c.state.Snapshot = leader, &snapshot
	before := c.absent
	c.absent = leader.Problem(now) != ""
	return c.absent != before
}

// publish makes the present knowledge the state.
func (c *Cluster) publish() {
	snapshot, now := c.snapshot(), c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	next := dashboard.State{Snapshot: snapshot, Version: c.state.Version + 1}
	if slices.ContainsFunc(snapshot.Missing, func(missing view.Missing) bool { return missing.Outdated }) {
		if next.Lost = c.state.Lost; next.Lost.IsZero() {
			next.Lost = now
		}
	}
	if c.outdated != nil {
		close(c.outdated)
	}
	c.outdated = make(chan struct{})
	next.Outdated = c.outdated
	c.state = next
}

// State implements [dashboard.Source].
func (c *Cluster) State() dashboard.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Details implements [dashboard.Source]. What several pages ask for at the same time is read once.
func (c *Cluster) Details(ctx context.Context, snapshot *view.Snapshot, node string) (*view.Details, []view.Missing) {
	if kept, known := c.details.Get(node); known {
		return kept.(*nodeDetails).details, kept.(*nodeDetails).missing
	}
	ctx, cancel := context.WithTimeout(ctx, detailsTimeout)
	defer cancel()
	about := *snapshot
	about.Missing = nil
	details, err := ReadDetails(ctx, c.Clients, &about, node, c.LeaseNamespace)
	if err != nil { // The browser waits no longer.
		return &view.Details{}, []view.Missing{{Resource: "details", Reason: err.Error()}}
	}
	c.details.Add(node, &nodeDetails{details: details, missing: about.Missing}, interval)
	return details, about.Missing
}
