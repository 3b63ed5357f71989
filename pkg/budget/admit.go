// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"slices"
	"time"
)

// Asker is a health check that wants nodes remediated.
type Asker struct{ Kind, Name string }

func (c Asker) compare(other Asker) int {
	return cmp.Or(cmp.Compare(c.Kind, other.Kind), cmp.Compare(c.Name, other.Name))
}

// Request is what a health check asks budgets about one node whose CR is due.
type Request struct {
	// Node is the name of the Node, or the name that stands for a Machine without a Node.
	Node string
	// Since is when the node became unhealthy.
	Since time.Time
	// Begins reports whether only a budget may keep the remediation from beginning. If it is
	// false, the request takes nothing from others (spec B4.3).
	Begins bool
	// Continues means that the node is under remediation, and that the next step is due. Only a budget that
	// permits nothing refuses it, and it takes no place (spec B1.2).
	Continues bool
}

// waiter is a request that budgets refuse.
type waiter struct {
	Request
	asker Asker
	// yields means that the request comes after all others, because it got a place and did
	// not begin.
	yields bool
	// refusedBy are the names of the budgets that refuse it, sorted.
	refusedBy []string
	// admitted means that no budget refuses it, and that it takes no place: it continues, or does not begin for
	// another reason, for example a dry run or a taken lease. Its asker is woken when a budget refuses it (spec 5.6, P2).
	admitted bool
}

// compare has the order of spec B4.1: first the request that has been unhealthy for the
// longest time, then by name. Those that yield come last.
func (w *waiter) compare(other *waiter) int {
	if w.yields != other.yields {
		if w.yields {
			return 1
		}
		return -1
	}
	return cmp.Or(w.Since.Compare(other.Since), cmp.Compare(w.Node, other.Node), w.asker.compare(other.asker))
}

// queue is what an asker waits for.
type queue struct {
	waiters []*waiter
	// woken is when the asker was told that one of its requests may begin. It is zero if
	// none may.
	woken time.Time
}

// precedence is how long a woken asker comes before those behind it. Normally it looks at
// once. An asker that cannot look must not delay the others.
const precedence = 5 * time.Second

// lapsed reports whether the asker was woken, and has not looked for too long.
func (q *queue) lapsed(now time.Time) bool {
	return !q.woken.IsZero() && now.Sub(q.woken) >= precedence
}

// Admit decides which requests of an asker may begin at the instant now, in the order of spec
// B4.1 over all waiting askers. It returns why the others may not, by node. Requests that may
// begin get a reservation until End is called for them.
//
// Admit forgets what the asker waited for before, and its reservations for remediations that have
// begun. So the caller has to call SetNode with what the caches show first, and the caches have to
// show the last writes of the asker.
func (c *Counts) Admit(asker Asker, requests []Request, now time.Time) map[string]*Refusal {
	c.drop(func(r *reservation) bool { return r.asker == asker && r.began && r.expires.IsZero() })
	delete(c.waiting, asker)
	delete(c.admitted, asker)
	if len(requests) == 0 {
		return nil
	}
	c.look(now)
	waiting := &queue{}
	refusals := map[string]*Refusal{}
	a := attempt{Counts: c, now: now}
	for _, w := range c.before(asker, requests, now) {
		if w.asker != asker { // Takes its place from those that follow.
			if !a.refuses(w, false) {
				a.keepTentatively(w)
			}
			continue
		}
		if a.refuses(w, true) {
			refusals[w.Node] = a.found[0].refusal(now)
			waiting.waiters = append(waiting.waiters, w)
		} else if w.Begins && !w.Continues {
			a.keep(w)
		} else {
			w.admitted = true
			c.admitted[asker] = append(c.admitted[asker], w)
		}
	}
	a.end()
	if len(waiting.waiters) > 0 {
		c.waiting[asker] = waiting
	}
	return refusals
}

// before returns the requests of an asker, and the requests of others that wait and may
// begin, in order.
func (c *Counts) before(asker Asker, requests []Request, now time.Time) []*waiter {
	all := make([]*waiter, 0, len(requests))
	for _, request := range requests {
		all = append(all, &waiter{Request: request, asker: asker, yields: c.yields(asker, request.Node, now)})
	}
	last := slices.MaxFunc(all, (*waiter).compare)
	for _, others := range c.waiting {
		if others.lapsed(now) {
			continue
		}
		for _, w := range others.waiters {
			w.yields = c.yields(w.asker, w.Node, now)
			if w.Begins && !w.Continues && w.compare(last) < 0 {
				all = append(all, w)
			}
		}
	}
	slices.SortFunc(all, (*waiter).compare)
	return all
}

// Woken returns the askers whose answer has changed: those that wait for what the budgets now
// allow, each once until the budgets refuse it again, and those that the budgets had admitted and
// now refuse. It also updates which budgets refuse which asker.
func (c *Counts) Woken(now time.Time) (askers []Asker) {
	c.look(now)
	var all []*waiter
	for _, waiting := range c.waiting {
		for _, w := range waiting.waiters {
			w.yields = c.yields(w.asker, w.Node, now)
			all = append(all, w)
		}
	}
	for _, admitted := range c.admitted {
		all = append(all, admitted...)
	}
	slices.SortFunc(all, (*waiter).compare)
	allowed := map[Asker]bool{}
	a := attempt{Counts: c, now: now}
	for _, w := range all {
		refused := a.refuses(w, true)
		if w.admitted && refused && c.admitted[w.asker] != nil {
			delete(c.admitted, w.asker) // It asks again.
			askers = append(askers, w.asker)
		}
		if w.admitted || refused {
			continue
		}
		allowed[w.asker] = true
		if w.Begins && !w.Continues && !c.waiting[w.asker].lapsed(now) {
			a.keepTentatively(w)
		}
	}
	a.end()
	for asker, waiting := range c.waiting {
		if !allowed[asker] {
			waiting.woken = time.Time{}
		} else if waiting.woken.IsZero() {
			waiting.woken = now
			askers = append(askers, asker)
		}
	}
	slices.SortFunc(askers, Asker.compare)
	return slices.Compact(askers)
}

// attempt tries requests, one after the other.
type attempt struct {
	*Counts
	now time.Time
	// found is what was found for the last request.
	found []finding
	// tentative are the nodes with a reservation that ends with the attempt.
	tentative []string
}

// refuses reports whether a request is refused. With all, it finds every budget that refuses it,
// in order of their names.
func (a *attempt) refuses(w *waiter, all bool) bool {
	node := a.nodes[w.Node]
	a.found = a.found[:0]
	for _, g := range a.concerned(node) {
		if found, refused := g.check(w, node, a.now); refused {
			a.found = append(a.found, found)
			if !all {
				return true
			}
		}
	}
	if all {
		w.refusedBy = w.refusedBy[:0]
		for i := range a.found {
			w.refusedBy = append(w.refusedBy, a.found[i].group.budget.Name)
		}
	}
	return len(a.found) > 0
}

// concerned returns the groups that a remediation of a node concerns: the node counts in them, or
// will from then on. It is nil for an unknown node.
func (c *Counts) concerned(node *countedNode) []*group {
	switch {
	case node == nil:
		node = &countedNode{}
	case node.remediating() || node.Exists && (node.Machine.Exists || node.Machine.Namespace == ""):
		return node.groups
	}
	return c.groupsOf(func(b *Budget) (string, bool) { return b.selects(&node.Node) })
}

// keep reserves the place of a request until End is called for it.
func (a *attempt) keep(w *waiter) {
	fresh := &reservation{asker: w.asker, at: a.now}
	if r := a.reservationOf(w.Node); r != nil {
		if r.asker != w.asker {
			return // No budget applies to the node.
		}
		fresh.expires = r.expires
	}
	a.reserve(w.Node, fresh)
}

// keepTentatively reserves the place of a request, which those that follow cannot have.
func (a *attempt) keepTentatively(w *waiter) {
	if a.reservationOf(w.Node) == nil {
		a.reserve(w.Node, &reservation{asker: w.asker, at: a.now})
		a.tentative = append(a.tentative, w.Node)
	}
}

// end ends what is tentative.
func (a *attempt) end() {
	for _, node := range a.tentative {
		a.reserve(node, nil)
	}
}

// Waits reports whether an asker waits for a budget.
func (c *Counts) Waits(asker Asker) bool { return c.waiting[asker] != nil }
