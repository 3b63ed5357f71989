// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"slices"
	"time"
)

// Sight is what the controller could not have seen.
type Sight struct {
	// Cache is how far its caches may have been behind when a sync began.
	Cache time.Duration
	// Look is how long before a creation the Node may have been read where the audit log
	// does not say when that was.
	Look time.Duration
	// Sync is how long before a request the sync may have begun where nothing says when
	// that was.
	Sync time.Duration
}

// Quiet is the tolerance without any fault. On an idle machine, caches are behind by
// milliseconds and a sync takes tens of them. The tests share their cores with an API
// server and a controller under the race detector, which may get no turn for a second.
var Quiet = Sight{Cache: 2 * time.Second, Look: time.Second, Sync: 5 * time.Second}

// Plus adds the tolerances.
func (s Sight) Plus(other Sight) Sight {
	return Sight{Cache: s.Cache + other.Cache, Look: s.Look + other.Look, Sync: s.Sync + other.Sync}
}

// disturbance is a time in which the controller sees less.
type disturbance struct {
	from, to time.Time // A zero to means that it goes on.
	extra    Sight
}

// fog are the disturbances so far.
type fog []disturbance

// at returns the tolerance for a request at an instant. What a disturbance delayed may
// have effects until its own delays are over.
func (f fog) at(quiet Sight, now time.Time) Sight {
	sight := quiet
	for _, d := range f {
		if now.Before(d.from) || (!d.to.IsZero() && now.After(d.to.Add(d.extra.Cache+d.extra.Sync+quiet.Sync))) {
			continue
		}
		sight.Cache = max(sight.Cache, quiet.Cache+d.extra.Cache)
		sight.Look = max(sight.Look, quiet.Look+d.extra.Look)
		sight.Sync = max(sight.Sync, quiet.Sync+d.extra.Sync)
	}
	return sight
}

// Disturb adds to the tolerance from now on, until the returned function is called.
// What is the reason is told in the timelines.
func (r *Referee) Disturb(what string, extra Sight) (end func()) {
	r.Remark("fault begins: %s", what)
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.fog)
	r.fog = append(r.fog, disturbance{from: time.Now(), extra: extra})
	r.figures.Faults++
	return func() {
		r.Remark("fault ends: %s", what)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fog = slices.Clone(r.fog)
		r.fog[i].to = time.Now()
	}
}
