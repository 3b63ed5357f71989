// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// TestProperties follows random simulations. Whatever happens: what Admit and Woken say is what
// the rules say, read anew and one by one (refusing), and nothing begins that must not.
func TestProperties(t *testing.T) {
	t.Parallel()
	var admitted, refused, woken, restarts int
	for seed := range uint64(60) {
		s := newSimulation(seed)
		for range 250 {
			if s.now = s.now.Add(time.Duration(s.random.IntN(4000)) * time.Millisecond); s.one(20) {
				s.now = s.now.Add(time.Duration(s.random.IntN(120)) * time.Second)
			}
			s.happen(s.names()[0])
			s.expire()
			check := s.checks[s.random.IntN(len(s.checks))]
			switch s.random.IntN(20) {
			case 0, 1:
				s.editBudget()
			case 2:
				s.conclude(check)
				s.counts.Forget(check, s.now)
				maps.DeleteFunc(s.vain, func(a attempted, _ time.Time) bool { return a.asker == check })
				for name, n := range s.nodes {
					delete(n.since, check)
					s.tell(name)
				}
			case 3:
				if s.one(4) {
					s.restart()
					restarts++
				}
			case 4, 5, 6, 7, 8:
				woken += len(requireWoken(t, s))
			default:
				s.conclude(check)
				a, r := requireAdmit(t, s, check)
				admitted, refused = admitted+a, refused+r
			}
			s.forgetLabels()
			requireCounts(t, s)
		}
		requireAllBegin(t, s)
	}
	t.Logf("%d admitted, %d refused, %d woken, %d restarts", admitted, refused, woken, restarts)
	require.Greater(t, min(admitted/10, refused/10, woken, restarts), 50)
}

// requireCounts: counts from single changes equal counts from scratch.
func requireCounts(t *testing.T, s *simulation) {
	t.Helper()
	scratch := s.scratch()
	require.Equal(t, scratch.snapshot(), s.counts.snapshot(), "seed %d", s.seed)
	for name, b := range s.budgets {
		counted := s.counts.find(name)
		for _, old := range []*nhcv1alpha1.RemediationBudgetStatus{{}, &b.Status} {
			require.Equal(t, scratch.Status(name, old, s.now), s.counts.Status(name, old, s.now))
		}
		for group, began := range b.began {
			if g := counted.groups[group]; g != nil && s.now.Before(counted.nextStart(latest(began, b.floor))) {
				require.False(t, g.lastStarted("").Before(latest(began, b.floor)), "seed %d: %s %q has forgotten the beginning at %s: %+v", s.seed, name, group, began, b.Spec)
			}
		}
	}
}

// requireAdmit: a health check looks, and is told what the rules say.
func requireAdmit(t *testing.T, s *simulation, check Asker) (admitted, refused int) {
	t.Helper()
	s.catchUp(check)
	s.counts.Admit(check, nil, s.now)
	s.forgetLabels()
	requests := s.candidates(check)
	all := []*waiter{}
	for _, candidate := range requests {
		all = append(all, &waiter{Request: candidate, asker: check})
	}
	for _, waiting := range s.counts.waiting {
		if waiting.woken.IsZero() || s.now.Before(waiting.woken.Add(5*time.Second)) {
			for _, w := range waiting.waiters {
				if w.Begins {
					all = append(all, w)
				}
			}
		}
	}
	want := map[string][]string{}
	for w, budgets := range s.tryAll(all, check) {
		if w.asker == check && len(budgets) > 0 {
			want[w.Node] = budgets
		}
	}
	before, scratch := s.counts.snapshot(), s.scratch()
	got := s.counts.Admit(check, requests, s.now)
	require.Len(t, got, len(want), "seed %d", s.seed)
	for node, budgets := range want {
		require.Equal(t, budgets[0], got[node].Budget)
		require.True(t, got[node].Until.IsZero() || got[node].Until.After(s.now))
	}
	if len(requests) > 0 {
		require.Equal(t, messages(scratch.Admit(check, requests, s.now)), messages(got))
	}
	for _, candidate := range requests {
		switch {
		case got[candidate.Node] != nil:
			refused++
		case candidate.Begins:
			admitted++
			s.admitted[check] = append(s.admitted[check], candidate.Node)
		}
	}
	if len(s.admitted[check]) == 0 {
		require.Equal(t, before, s.counts.snapshot(), "who is refused takes nothing")
	}
	for _, node := range s.admitted[check] {
		requireMayBegin(t, s, check, node)
	}
	return admitted, refused
}

// requireMayBegin: admissions keep all limits, counted by the remediations that have
// really begun.
func requireMayBegin(t *testing.T, s *simulation, check Asker, node string) {
	t.Helper()
	n := s.nodes[node]
	for name, b := range s.budgets {
		group, selected := b.groupOf(n)
		parsed := Parse(b.RemediationBudget)
		if !selected || !parsed.phaseAt(s.now).applies {
			continue
		}
		require.Empty(t, parsed.Problem, "%s admits %s", name, node)
		var now tally
		for name, member := range s.nodes {
			if in, selected := b.groupOf(member); !selected || in != group {
				continue
			}
			remediating := len(member.crs) > 0 || slices.Contains(s.admitted[check], name)
			if b.counts(member) || remediating {
				now.observed++
			}
			if remediating {
				now.remediating++
			}
			if remediating || b.counts(member) && (member.notReady || len(member.since) > 0) {
				now.unhealthy++
			}
		}
		if limit := b.Spec.MaxConcurrent; limit != nil {
			require.LessOrEqual(t, now.remediating, scale(limit, now.observed+s.reserved(b, group)), "seed %d: %s %q", s.seed, name, group)
		}
		if limit := b.Spec.MaxUnhealthy; limit != nil {
			require.LessOrEqual(t, now.unhealthy, scale(limit, now.observed+s.reserved(b, group)), "seed %d: %s %q", s.seed, name, group)
		}
		if interval := parsed.minInterval; interval > 0 && n.crs[check] == nil && b.last[group] != node { // Who cannot tell whether it has begun may try again.
			require.False(t, s.now.Before(latest(b.began[group], b.floor).Add(interval)), "seed %d: %s %q: the last one was at %s", s.seed, name, group, b.began[group])
			for _, other := range s.admitted[check] {
				if in, selected := b.groupOf(s.nodes[other]); selected && in == group {
					require.Equal(t, node, other, "two beginnings at once")
				}
			}
		}
	}
}

// reserved counts the nodes of a group that have only a reservation.
func (s *simulation) reserved(b *simulatedBudget, group string) (n int) {
	for name, node := range s.nodes {
		in, selected := b.groupOf(node)
		if selected && in == group && !b.counts(node) && len(node.crs) == 0 && s.counts.reservationOf(name) != nil {
			n++
		}
	}
	return n
}

// requireWoken: the askers are woken that Admit has something for, and that do not know.
func requireWoken(t *testing.T, s *simulation) []Asker {
	t.Helper()
	all, want := []*waiter{}, []Asker{}
	for asker, waiting := range s.counts.waiting {
		requests := []Request{}
		for _, w := range waiting.waiters {
			requests = append(requests, w.Request)
			all = append(all, w)
		}
		if waiting.woken.IsZero() {
			scratch := s.scratch()
			for name := range scratch.reserved { // Admit would drop what the caches do not show yet.
				scratch.nodes[name].reservation.expires = s.now.Add(time.Hour)
			}
			if len(scratch.Admit(asker, requests, s.now)) < len(requests) {
				want = append(want, asker)
			}
		}
	}
	for _, admitted := range s.counts.admitted {
		all = append(all, admitted...)
	}
	for w, budgets := range s.tryAll(all, Asker{}) {
		if w.admitted && len(budgets) > 0 { // A budget refuses now what was admitted.
			want = append(want, w.asker)
		}
	}
	slices.SortFunc(want, Asker.compare)
	want = slices.Compact(want)
	before := s.counts.snapshot()
	got := s.counts.Woken(s.now)
	require.Equal(t, want, append([]Asker{}, got...), "seed %d", s.seed)
	require.Empty(t, s.counts.Woken(s.now), "each once")
	require.Equal(t, before, s.counts.snapshot(), "nothing has begun")
	next := s.counts.NextChange(s.now)
	require.True(t, next.IsZero() || next.After(s.now))
	for w, budgets := range s.tryAll(all, Asker{}) {
		require.Equal(t, budgets, append([]string(nil), w.refusedBy...), "who keeps %s waiting", w.Node)
	}
	return got
}

// tryAll tries waiters in order, and returns which budgets refuse each of them. Those of one
// asker begin; others keep them from it as far as they have no place yet.
func (s *simulation) tryAll(all []*waiter, check Asker) map[*waiter][]string {
	slices.SortFunc(all, func(a, b *waiter) int {
		if yields := s.yields(a.asker, a.Node); yields != s.yields(b.asker, b.Node) {
			return map[bool]int{true: 1, false: -1}[yields]
		}
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Node, b.Node), strings.Compare(a.asker.Name, b.asker.Name))
	})
	taken, budgets := map[string]Asker{}, map[*waiter][]string{}
	for _, w := range all {
		budgets[w] = s.refusing(w, taken)
		waiting := s.counts.waiting[w.asker]
		lapsed := waiting != nil && !waiting.woken.IsZero() && !s.now.Before(waiting.woken.Add(5*time.Second))
		if len(budgets[w]) == 0 && w.Begins && !lapsed {
			if _, is := taken[w.Node]; !is && (w.asker == check || s.counts.reservationOf(w.Node) == nil) {
				taken[w.Node] = w.asker
			}
		}
	}
	return budgets
}

// refusing returns the names of the budgets that refuse a candidate, with the places of others
// taken: the rules, read anew.
func (s *simulation) refusing(w *waiter, taken map[string]Asker) (refusing []string) {
	for _, name := range s.counts.Budgets() {
		b := s.budgets[name]
		parsed := Parse(b.RemediationBudget)
		group, selected := b.groupOf(s.nodes[w.Node])
		if !selected || !parsed.phaseAt(s.now).applies {
			continue
		}
		var now tally
		soon := s.now.Before(parsed.nextStart(s.counts.find(name).group(group).lastStarted(w.Node)))
		for name, n := range s.nodes {
			_, reserved := taken[name]
			reserved = reserved || s.remediating(name)
			if in, selected := b.groupOf(n); !selected || in != group || (!b.counts(n) && !reserved && name != w.Node) {
				continue
			}
			now.observed++
			if reserved || n.notReady || len(n.since) > 0 || name == w.Node {
				now.unhealthy++
			}
			if reserved && name != w.Node {
				now.remediating++
			}
			if _, is := taken[name]; is && name != w.Node {
				soon = soon || parsed.minInterval > 0
			}
		}
		holder, taken := taken[w.Node]
		if r := s.counts.reservationOf(w.Node); r != nil {
			holder, taken = r.asker, true
		}
		unhealthy, concurrent := b.Spec.MaxUnhealthy, b.Spec.MaxConcurrent
		if parsed.Problem != "" || soon || taken && holder != w.asker ||
			unhealthy != nil && now.unhealthy > scale(unhealthy, now.observed) || concurrent != nil && now.remediating+1 > scale(concurrent, now.observed) {
			refusing = append(refusing, name)
		}
	}
	return refusing
}

// scale rounds percentages up.
func scale(limit *intstr.IntOrString, total int) int {
	percent, is := strings.CutSuffix(limit.String(), "%")
	n, _ := strconv.Atoi(percent)
	if !is {
		return n
	}
	scaled := n * total / 100
	if n*total%100 > 0 {
		scaled++
	}
	return scaled
}

// requireAllBegin: once the budgets permit, all begin. A health check only looks when it is
// woken. One health check never looks, and the others do not wait for it.
func requireAllBegin(t *testing.T, s *simulation) {
	t.Helper()
	for _, check := range s.checks {
		s.conclude(check)
	}
	for _, b := range s.budgets {
		b.Spec.MaxUnhealthy = nil
		if b.Spec.MaxConcurrent == nil || scale(b.Spec.MaxConcurrent, 100) == 0 {
			b.Spec.MaxConcurrent = new(intstr.FromInt32(1))
		}
		s.counts.SetBudget(Parse(b.RemediationBudget), nil)
	}
	for name, n := range s.nodes {
		for _, cr := range n.crs {
			cr.visible = true
		}
		s.tell(name)
	}
	lazy, end, done := s.checks[0], s.now.Add(24*time.Hour), map[string]time.Time{}
	looking := append(s.counts.Woken(s.now), s.checks...)
	for {
		for _, check := range looking {
			if check != lazy {
				s.lookAndBegin(check)
			}
		}
		s.expire()
		if looking = s.counts.Woken(s.now); len(looking) > 0 {
			continue
		}
		next := s.counts.NextChange(s.now)
		for name, n := range s.nodes { // A remediation takes a minute.
			if node := n.told(); node.Remediating && done[name].IsZero() {
				done[name] = s.now.Add(time.Minute)
			}
			if at := done[name]; !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if next.IsZero() || next.After(end) {
			break
		}
		s.now = next
		for name, at := range done {
			if !at.After(s.now) {
				delete(done, name)
				clear(s.nodes[name].crs)
				clear(s.nodes[name].since)
				s.nodes[name].notReady = false
				s.tell(name)
			}
		}
		s.expire()
		looking = s.counts.Woken(s.now)
	}
	for name, n := range s.nodes {
		delete(n.since, lazy)
		require.Empty(t, n.since, "seed %d: %s waits for ever", s.seed, name)
	}
}

// lookAndBegin has a health check begin whatever it may.
func (s *simulation) lookAndBegin(check Asker) {
	for {
		s.catchUp(check)
		requests := s.candidates(check)
		for i := range requests {
			requests[i].Begins = true
		}
		refusals := s.counts.Admit(check, requests, s.now)
		if len(refusals) == len(requests) {
			return
		}
		for _, candidate := range requests {
			if refusals[candidate.Node] == nil {
				s.counts.End(check, candidate.Node, Begun, s.now)
				s.nodes[candidate.Node].crs[check] = &simulatedCR{started: s.now.Truncate(time.Second)}
			}
		}
	}
}
