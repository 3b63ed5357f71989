// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Refusal is why a budget keeps a remediation from beginning.
type Refusal struct {
	// Budget is the name of the budget.
	Budget string
	// Message has the numbers (spec B5.1).
	Message string
	// Until is when time alone may change that, zero if it does not.
	Until time.Time
}

// underRemediation is what the nodes are that maxConcurrent counts.
const underRemediation = "under remediation"

// finding is the reason for which a group refuses a request. One of the fields is set.
type finding struct {
	group *group
	// invalid: the budget cannot be evaluated.
	invalid bool
	// what: so many nodes of the group are that already, of at most limit.
	what     string
	n, limit int
	// next: minInterval, or the cooldown, has not passed before.
	next     time.Time
	cooldown bool
	// taken: another asker is about to remediate the node.
	taken *reservation
}

// check returns the reason for which a group refuses a request, and whether there is one. The node
// always counts as not healthy, because its health check says so (spec B3.3). node may be nil, or not
// count in the group yet: a Machine without a Node.
func (g *group) check(w *waiter, node *countedNode, now time.Time) (found finding, refused bool) {
	b := g.budget
	found.group = g
	if !b.at(now).applies {
		return found, false
	}
	if w.Continues {
		if limit, limited := scaled(b.maxConcurrent, max(1, g.observed)); limited && limit <= 0 {
			found.what, found.n = underRemediation, g.remediating
			return found, true
		}
		return found, false
	}
	if b.Problem != "" {
		found.invalid = true
		return found, true
	}
	observed, unhealthy, others := g.observed, g.unhealthy, g.remediating
	switch {
	case node == nil || !slices.Contains(node.groups, g):
		observed, unhealthy = observed+1, unhealthy+1
	case node.remediating(): // By another health check, or by this one as far as it knows.
		others--
	case !node.unhealthy():
		unhealthy++
	}
	if limit, limited := scaled(b.maxUnhealthy, observed); limited && unhealthy > limit {
		found.what, found.n, found.limit = "not healthy", unhealthy, limit
		return found, true
	}
	if next := g.cooledDown(); now.Before(next) {
		found.next, found.cooldown = next, true
		return found, true
	}
	if limit, limited := scaled(b.maxConcurrent, observed); limited && others >= limit {
		found.what, found.n, found.limit = underRemediation, g.remediating, limit
		return found, true
	}
	if b.minInterval > 0 {
		if next := b.nextStart(g.lastStarted(w.Node)); now.Before(next) {
			found.next = next
			return found, true
		}
	}
	if node != nil && node.reservation != nil && node.reservation.asker != w.asker {
		found.taken = node.reservation
		return found, true
	}
	return found, false
}

// refusal puts a finding into the words of spec B5.1.
func (f *finding) refusal(now time.Time) *Refusal {
	b := f.group.budget
	refusal := &Refusal{Budget: b.Name, Message: b.Name, Until: b.at(now).until}
	if b.topologyKey != "" && !f.invalid {
		refusal.Message += " " + cmp.Or(f.group.name, `""`)
	}
	switch {
	case f.invalid:
		refusal.Message += ": " + b.Problem
	case f.taken != nil:
		refusal.Message += fmt.Sprintf(": %s %s is about to remediate the node", f.taken.asker.Kind, f.taken.asker.Name)
	case f.what == underRemediation && f.limit == 0:
		refusal.Message += ": no remediation may begin"
	case f.what != "":
		refusal.Message += fmt.Sprintf(": %d of at most %d %s are %s", f.n, f.limit, b.noun(), f.what)
	case f.cooldown:
		refusal.Message += ": cooldown, next begin at " + format(f.next)
	default:
		refusal.Message += ": next begin at " + format(f.next)
	}
	if !refusal.Until.IsZero() {
		refusal.Message += ", until " + format(refusal.Until)
	}
	refusal.Until = health.Earliest(refusal.Until, f.next)
	if b.Reason != "" {
		refusal.Message += ". " + b.Reason
	}
	return refusal
}

// format returns an instant as messages have it.
func format(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// allowed returns how many more nodes of a group may be taken into remediation now, and false
// if the budget does not limit the number.
func (g *group) allowed(now time.Time) (allowed int, limited bool) {
	b := g.budget
	if !b.at(now).applies {
		return 0, false
	}
	if b.Problem != "" {
		return 0, true
	}
	atMost := func(limit int) {
		if !limited || limit < allowed {
			allowed = limit
		}
		limited = true
	}
	if limit, has := scaled(b.maxUnhealthy, g.observed); has {
		if g.unhealthy > limit || now.Before(g.cooledDown()) {
			atMost(0)
		}
		atMost(limit - g.remediating)
	}
	if limit, has := scaled(b.maxConcurrent, g.observed); has {
		atMost(limit - g.remediating)
	}
	if b.minInterval > 0 {
		atMost(1)
		if now.Before(b.nextStart(g.lastStarted(""))) {
			atMost(0)
		}
	}
	return max(0, allowed), limited
}
