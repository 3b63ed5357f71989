// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Claimant is a health check that wants nodes remediated.
type Claimant struct{ Kind, Name string }

// Candidate is a node whose remediation is due, as far as its health check is concerned.
type Candidate struct {
	// Node is the name of the Node, or what stands for a Machine without one.
	Node string
	// Since is when the node became unhealthy.
	Since time.Time
	// Begins reports whether nothing but a budget keeps the remediation from beginning. If it
	// is false, the candidate takes nothing from others (spec B4.3).
	Begins bool
}

// waiter is a candidate that budgets refuse.
type waiter struct {
	Candidate
	claimant Claimant
	// budgets are the names of all budgets that refuse it, sorted.
	budgets []string
	// woken is when the claimant was told that they do no longer, zero if they do.
	woken time.Time
}

// precedence is how long a claimant that was woken keeps what it waited for from others that
// come after it. Normally it looks at once; one that cannot must not hold up the others.
const precedence = 5 * time.Second

// Admit decides which candidates of a claimant may begin at the instant now, in the order of
// spec B4.1 over all claimants that are known to wait. It returns why the others may not, by
// node. Those that may, and begin, have a reservation until End is called for them. What the
// claimant waited for before is forgotten, and so are its reservations for remediations that
// have begun: the caches of the claimant have to show its last writes.
func (c *Counts) Admit(claimant Claimant, candidates []Candidate, now time.Time) map[string]*Refusal {
	c.drop(func(r *reservation) bool { return r.claimant == claimant && r.began && r.expires.IsZero() })
	delete(c.waiting, claimant)
	if len(candidates) == 0 || len(c.budgets) == 0 {
		return nil
	}
	all := c.others(claimant, now)
	for _, candidate := range candidates {
		all = append(all, &waiter{Candidate: candidate, claimant: claimant})
	}
	refusals := map[string]*Refusal{}
	c.tryInOrder(all, now, func(w *waiter, refused []*Refusal) (keep bool) {
		if w.claimant != claimant {
			return false
		}
		if len(refused) > 0 {
			refusals[w.Node] = refused[0]
			c.waiting[claimant] = append(c.waiting[claimant], w)
		}
		return true
	})
	return refusals
}

// others returns the waiters that come before those of a claimant that are later in the order.
func (c *Counts) others(claimant Claimant, now time.Time) (others []*waiter) {
	for other, waiters := range c.waiting {
		for _, w := range waiters {
			if other != claimant && w.Begins && (w.woken.IsZero() || now.Sub(w.woken) < precedence) {
				others = append(others, w)
			}
		}
	}
	return others
}

// Woken returns the claimants that wait for what the budgets now allow, each once until it is
// refused again.
func (c *Counts) Woken(now time.Time) (claimants []Claimant) {
	var all []*waiter
	for _, waiters := range c.waiting {
		all = append(all, waiters...)
	}
	c.tryInOrder(all, now, func(w *waiter, refused []*Refusal) (keep bool) {
		switch {
		case len(refused) > 0:
			w.woken = time.Time{}
		case w.woken.IsZero():
			w.woken = now
			claimants = append(claimants, w.claimant)
		}
		return false
	})
	slices.SortFunc(claimants, func(a, b Claimant) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(claimants)
}

// tryInOrder tries waiters, the one that is unhealthy for the longest first, then by name, and
// calls decide with what refuses it. One that is admitted takes its place from those that
// follow, and for good if decide keeps it.
func (c *Counts) tryInOrder(waiters []*waiter, now time.Time, decide func(w *waiter, refused []*Refusal) (keep bool)) {
	slices.SortFunc(waiters, func(a, b *waiter) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Node, b.Node), cmp.Compare(a.claimant.Kind, b.claimant.Kind), cmp.Compare(a.claimant.Name, b.claimant.Name))
	})
	var tentative []string
	for _, w := range waiters {
		refused := c.refusals(w, now)
		w.budgets = w.budgets[:0]
		for _, refusal := range refused {
			w.budgets = append(w.budgets, refusal.Budget)
		}
		keep := decide(w, refused)
		if len(refused) > 0 || !w.Begins || c.reservationOf(w.Node) != nil {
			continue
		}
		c.reserve(w.Node, &reservation{claimant: w.claimant, at: now})
		if !keep {
			tentative = append(tentative, w.Node)
		}
	}
	for _, node := range tentative {
		c.reserve(node, nil)
	}
}

// refusals returns why budgets refuse a candidate, in order of their names.
func (c *Counts) refusals(w *waiter, now time.Time) (refused []*Refusal) {
	node := c.nodes[w.Node]
	if node == nil { // Without a Node object it counts nowhere yet.
		node = &countedNode{groups: c.groupsOf(nil)}
	}
	for _, g := range node.groups {
		numbers, bound := g.numbers(), g.budget.at(now)
		if !node.unhealthy() {
			numbers.unhealthy++ // Somebody knows better than what is counted.
		}
		if refusal := bound.refusal(g.name, numbers, node.Remediating); refusal != nil {
			refused = append(refused, refusal)
		} else if r := node.reservation; r != nil && r.claimant != w.claimant {
			refused = append(refused, &Refusal{Budget: g.budget.Name, Message: g.budget.Name + ": " + r.claimant.Kind + " " + r.claimant.Name + " is about to remediate the node"})
		}
	}
	return refused
}

// Result is what became of a remediation that was admitted.
type Result int

const (
	// NotBegun gives back what was reserved.
	NotBegun Result = iota
	// Begun keeps it until the claimant looks again.
	Begun
	// Uncertain keeps it for a minute: by then the caches show whether it has begun.
	Uncertain
)

// uncertainFor is how long a remediation that may have begun counts.
const uncertainFor = time.Minute

// End says what became of a remediation that Admit has admitted.
func (c *Counts) End(claimant Claimant, node string, result Result, now time.Time) {
	r := c.reservationOf(node)
	if r == nil || r.claimant != claimant || r.began {
		return
	}
	switch result {
	case NotBegun:
		c.reserve(node, nil)
	case Begun:
		r.began = true
	case Uncertain:
		r.began, r.expires = true, now.Add(uncertainFor)
	}
}

// Expire drops the reservations of remediations that may have begun, and the caches have had the
// time to show it.
func (c *Counts) Expire(now time.Time) {
	c.drop(func(r *reservation) bool { return !r.expires.IsZero() && !now.Before(r.expires) })
}

// Forget drops what is known of a claimant that is gone.
func (c *Counts) Forget(claimant Claimant, now time.Time) {
	delete(c.waiting, claimant)
	for name := range c.reserved {
		if r := c.nodes[name].reservation; r.claimant == claimant && r.began {
			r.expires = now.Add(uncertainFor)
		}
	}
}

// WaitingClaimants returns those that wait for a budget, in any order.
func (c *Counts) WaitingClaimants() []Claimant { return slices.Collect(maps.Keys(c.waiting)) }

// Waiting reports whether anybody waits for a budget, or has a reservation that expires.
func (c *Counts) Waiting() bool { return len(c.waiting) > 0 || len(c.reserved) > 0 }
