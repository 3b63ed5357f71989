// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
)

// lookTime is how long a group must have exceeded maxUnhealthy for each process to have seen it for certain, beyond what
// its caches may be behind; and how long after it a process may still see it.
const lookTime = 5 * time.Second

// cooldownRefuses returns what cooldown says (spec B3.6). The group has exceeded maxUnhealthy for certain if it did so
// for long enough, under the present leader.
func (h *history) cooldownRefuses(b *Budget, group string, q question) refusal {
	r := refusal{rule: "B3.6", text: fmt.Sprintf("group %q has exceeded maxUnhealthy in the last %s", group, b.cooldown)}
	behind := q.at.Sub(q.known) + lookTime
	since := q.at.Add(-b.cooldown - behind)
	kept := all(h.budgets[b.Name].during(since, q.rv), func(version *Budget) bool {
		return version != nil && version.sameScope(b) && !version.invalid && version.cooldown == b.cooldown && equality.Semantic.DeepEqual(version.Spec.MaxUnhealthy, b.Spec.MaxUnhealthy)
	})
	if !kept || h.ledSince(since) { // A new leader goes by the status of the one before.
		r.maybe = true
		return r
	}
	if r.maybe = h.exceeds(b, group, window{known: since, rv: q.rv, at: q.at}, q.by).maybe; !r.maybe {
		return r
	}
	for at := q.at.Add(-b.cooldown + time.Second); at.Before(q.known) && !r.surely; at = at.Add(b.cooldown / 6) {
		r.surely = h.exceeds(b, group, window{known: at.Add(-behind), rv: h.latestAt(at), at: at}, q.by).surely
	}
	return r
}

// exceeds tells whether a group exceeded maxUnhealthy in a window, as far as is known.
func (h *history) exceeds(b *Budget, group string, w window, by string) certainty {
	var observed, unhealthy bounds
	for _, n := range h.budgetNodes(w, by) {
		counts := n.counts(b, group)
		observed.add(counts)
		unhealthy.add(counts.and(n.unhealthy))
	}
	limit := *b.Spec.MaxUnhealthy
	return certainty{unhealthy.min > share(limit, observed.max), unhealthy.max > share(limit, observed.min)}
}

// latestAt returns the resource version of the last change that counts for budgets and was seen by an instant.
func (h *history) latestAt(at time.Time) uint64 {
	return max(latestIn(h.nodes, at), latestIn(h.crs, at), latestIn(h.machines, at), latestIn(h.nhcs, at), latestIn(h.mhcs, at))
}

func latestIn[K comparable, T any](tracks map[K]track[T], at time.Time) (latest uint64) {
	for _, track := range tracks {
		for _, v := range track {
			if !v.seen.After(at) {
				latest = max(latest, v.rv)
			}
		}
	}
	return latest
}
