// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// Past is what the status of a budget says about earlier times, by group.
type Past struct {
	// Started is when the last remediation began.
	Started map[string]time.Time
	// Within has the groups that have exceeded maxUnhealthy, and when each came back within it. It is zero for a
	// group that still exceeded it when the status was written.
	Within map[string]time.Time
}

// PastOf returns what the status of a budget says. No time is later than now: a status written by a clock that was
// ahead must not delay a group until then.
func PastOf(budget *nhcv1alpha1.RemediationBudget, now time.Time) *Past {
	past := &Past{Started: map[string]time.Time{}, Within: map[string]time.Time{}}
	for i := range budget.Status.Groups {
		group := &budget.Status.Groups[i]
		if at := group.LastStarted; at != nil {
			past.Started[group.Name] = health.Earliest(at.Time, now)
		}
		if since := group.WithinSince; since != nil {
			past.Within[group.Name] = health.Earliest(since.Time, now)
		}
		if limitProblem("", budget.Spec.MaxUnhealthy) != "" {
			continue
		}
		if limit, limited := scaled(budget.Spec.MaxUnhealthy, int(group.ObservedNodes)); limited && int(group.NotHealthyNodes) > limit {
			past.Within[group.Name] = time.Time{}
		}
	}
	return past
}

// recall adds what the status of a budget says to what this process has seen.
func (b *counted) recall(past *Past) {
	for name, at := range past.Started {
		b.started[name] = latest(b.started[name], at)
	}
	for name, since := range past.Within {
		if known, exceeded := b.within[name]; !exceeded || !known.IsZero() {
			b.within[name] = latest(known, since)
		}
	}
}

// look notes which groups exceed maxUnhealthy. It forgets groups that have been within it again for cooldown
// (spec B3.6).
func (b *counted) look(now time.Time) {
	if b.cooldown == 0 || b.Problem != "" {
		return
	}
	for name, g := range b.groups {
		if g.exceeds() || b.regrouped {
			b.within[name] = time.Time{}
		}
	}
	b.regrouped = b.regrouped && len(b.groups) == 0
	for name, since := range b.within {
		switch {
		case b.group(name).exceeds():
		case since.IsZero():
			b.within[name] = now
		case !now.Before(since.Add(b.cooldown)):
			delete(b.within, name)
		}
	}
}

// exceeds reports whether a group has more nodes that are not healthy than maxUnhealthy
// allows.
func (g *group) exceeds() bool {
	limit, limited := scaled(g.budget.maxUnhealthy, g.observed)
	return limited && g.unhealthy > limit
}

// cooledDown returns when the cooldown of a group ends. It is zero for a group that has not exceeded maxUnhealthy, or
// still does.
func (g *group) cooledDown() time.Time {
	if since := g.budget.within[g.name]; g.budget.cooldown > 0 && !since.IsZero() {
		return since.Add(g.budget.cooldown)
	}
	return time.Time{}
}

// withinSince is what status says of it.
func (g *group) withinSince() *metav1.Time {
	if g.cooledDown().IsZero() {
		return nil
	}
	return new(metav1.NewTime(g.budget.within[g.name].Truncate(time.Second)))
}
