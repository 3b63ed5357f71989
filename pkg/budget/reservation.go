// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"maps"
	"time"
)

// reservation holds the place of a node in its budgets until the caches show that it is under
// remediation (spec B3.2).
type reservation struct {
	asker Asker
	// at is when the remediation began, as far as is known.
	at time.Time
	// shown means that the caches show a beginning of a remediation since the reservation.
	shown bool
	// began means that the remediation has begun, as far as is known. The caches show it the
	// next time that the asker looks, at the latest.
	began bool
	// expires is set if the remediation may have begun. The reservation is kept until then.
	expires time.Time
}

// pending reports whether the remediation has not begun, so that something else may still
// refuse it.
func (r *reservation) pending() bool { return !r.began && r.expires.IsZero() }

// Usage says whether an admitted remediation has begun.
type Usage int

const (
	// NotBegun gives back what was reserved.
	NotBegun Usage = iota
	// Begun keeps it until the caches show it, or the asker looks again.
	Begun
	// Uncertain keeps it for a minute: by then the caches show whether it has begun.
	Uncertain
	// Rejected gives back the reservation, because something else has refused the remediation, or it
	// has failed. The next attempts yield to all others.
	Rejected
)

// uncertainFor is how long a remediation that may have begun counts.
const uncertainFor = time.Minute

// yieldFor is how long a request comes after all others once it got a place and did not begin.
// Otherwise a request that can never begin, such as a control plane node that etcd needs, would
// block all behind it (spec B4.3). After that, it is tried in its turn again. Of two that cannot begin, each turn
// changes both decisions, so turns are rare.
const yieldFor = 10 * time.Minute

// attempted is a request that had a place.
type attempted struct {
	asker Asker
	node  string
}

// yields reports whether a request comes after all others.
func (c *Counts) yields(asker Asker, node string, now time.Time) bool {
	since, yields := c.yielding[attempted{asker, node}]
	return yields && now.Before(since.Add(yieldFor))
}

// remember notes what became of an attempt.
func (c *Counts) remember(asker Asker, node string, usage Usage, now time.Time) {
	switch {
	case usage == Rejected && !c.yields(asker, node, now):
		c.yielding[attempted{asker, node}] = now
	case usage == Begun, usage == Uncertain:
		delete(c.yielding, attempted{asker, node})
	}
}

// End takes the outcome of a remediation that Admit has admitted. Where no budget applies, Admit
// may have admitted a node for two askers. The asker that begins has the reservation.
func (c *Counts) End(asker Asker, node string, usage Usage, now time.Time) {
	c.remember(asker, node, usage, now)
	r := c.reservationOf(node)
	switch {
	case (usage == Begun || usage == Uncertain) && r != nil && r.asker == asker && r.shown && c.nodes[node].Remediating:
		r.at = now // What is shown may be of another asker.
		c.settle(node)
	case usage == Begun:
		c.reserve(node, &reservation{asker: asker, at: now, began: true})
	case usage == Uncertain:
		c.reserve(node, &reservation{asker: asker, at: now, began: true, expires: now.Add(uncertainFor)})
	case r == nil || r.asker != asker || r.began:
	case r.expires.IsZero():
		c.reserve(node, nil)
	default: // An earlier attempt may have begun.
		r.began = true
	}
}

// Expire drops expired reservations of remediations that may have begun, and beginnings that are
// older than every minInterval.
func (c *Counts) Expire(now time.Time) {
	c.drop(func(r *reservation) bool { return r.began && !r.expires.IsZero() && !now.Before(r.expires) })
	maps.DeleteFunc(c.yielding, func(_ attempted, since time.Time) bool { return !now.Before(since.Add(yieldFor)) })
	for _, budget := range c.budgets {
		budget.forgetStarted(now)
	}
}

// Forget drops what is known of an asker that is gone.
func (c *Counts) Forget(asker Asker, now time.Time) {
	delete(c.waiting, asker)
	delete(c.admitted, asker)
	maps.DeleteFunc(c.yielding, func(a attempted, _ time.Time) bool { return a.asker == asker })
	for name := range c.reserved {
		if r := c.nodes[name].reservation; r.asker == asker && r.began && r.expires.IsZero() {
			r.expires = now.Add(uncertainFor)
		}
	}
}

// reserve replaces the reservation of a node, which nil ends.
func (c *Counts) reserve(node string, r *reservation) {
	c.update(node, func(known *countedNode) { known.reservation = r })
	if r != nil {
		c.reserved.Insert(node)
	} else {
		c.reserved.Delete(node)
	}
}

// Reserved returns the nodes for which an asker has a reservation, in any order.
func (c *Counts) Reserved(asker Asker) (nodes []string) {
	for name := range c.reserved {
		if c.nodes[name].reservation.asker == asker {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// reservationOf returns the reservation of a node, nil if it has none.
func (c *Counts) reservationOf(name string) *reservation {
	if node := c.nodes[name]; node != nil {
		return node.reservation
	}
	return nil
}

// drop settles the reservations that match.
func (c *Counts) drop(matches func(*reservation) bool) {
	for name := range c.reserved {
		if matches(c.nodes[name].reservation) {
			c.settle(name)
		}
	}
}

// settle ends the reservation of a node whose remediation has begun, as far as is known. The
// remediation may be over before a cache has shown it.
func (c *Counts) settle(name string) {
	node := c.nodes[name]
	for _, g := range node.groups {
		g.started(node.reservation.at)
	}
	c.reserve(name, nil)
}
