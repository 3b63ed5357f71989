// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
)

// simulation is a cluster to which things happen at random, and the Counts that are told.
type simulation struct {
	seed    uint64
	random  *rand.Rand
	now     time.Time
	counts  *Counts
	budgets map[string]*simulatedBudget
	nodes   map[string]*simulatedNode
	checks  []Asker
	uids    int
	// admitted are the nodes with a place, by asker, until their end is told.
	admitted map[Asker][]string
	// vain are the attempts that something else has refused, and when that was first.
	vain map[attempted]time.Time
}

type simulatedBudget struct {
	*nhcv1alpha1.RemediationBudget
	// began are the last beginnings by group, last their nodes, and floor is that of all groups.
	began map[string]time.Time
	last  map[string]string
	floor time.Time
}

func (b *simulatedBudget) begin(group, node string, at time.Time) {
	if at.After(b.began[group]) {
		b.began[group], b.last[group] = at, node
	}
}

// simulatedNode is a node, with a Machine or not, or a Machine that never has a node.
type simulatedNode struct {
	onlyMachine, exists, notReady bool
	// labels are those that are known.
	labels  map[string]string
	machine Machine
	// since is since when health checks judge it unhealthy.
	since map[Asker]time.Time
	crs   map[Asker]*simulatedCR
}

type simulatedCR struct {
	started time.Time
	visible bool
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		seed: seed, random: rand.New(rand.NewPCG(seed, seed)), now: noon, counts: NewCounts(),
		budgets: map[string]*simulatedBudget{}, nodes: map[string]*simulatedNode{}, admitted: map[Asker][]string{}, vain: map[attempted]time.Time{},
	}
	for i := range 4 {
		s.checks = append(s.checks, nhc(fmt.Sprintf("check-%d", i)))
	}
	for i := range 10 {
		n := &simulatedNode{onlyMachine: i == 9, since: map[Asker]time.Time{}, crs: map[Asker]*simulatedCR{}}
		if !n.onlyMachine {
			n.exists, n.labels = true, s.labels()
		}
		if i%2 == 1 {
			n.machine = s.machine()
		}
		s.nodes[fmt.Sprintf("node-%d", i)] = n
	}
	for name := range s.nodes {
		s.tell(name)
	}
	return s
}

func (s *simulation) one(chances int) bool { return s.random.IntN(chances) == 0 }

// names returns the names of all nodes, in the order of chance.
func (s *simulation) names() []string {
	names := slices.Sorted(maps.Keys(s.nodes))
	s.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

func (s *simulation) labels() map[string]string {
	labels := map[string]string{"role": []string{"worker", "infra"}[s.random.IntN(2)]}
	if zone := s.random.IntN(3); zone > 0 {
		labels["zone"] = fmt.Sprintf("zone-%d", zone)
	}
	return labels
}

func (s *simulation) machine() Machine {
	return Machine{Exists: true, Namespace: "machines", Labels: s.labels()}
}

// tell brings Counts up to date.
func (s *simulation) tell(name string) { s.counts.SetNode(name, s.nodes[name].told()) }

// told is what the caches show.
func (n *simulatedNode) told() Node {
	node := Node{Exists: n.exists, NotReady: n.notReady, Observation: Observation{Unhealthy: len(n.since) > 0}}
	if n.exists {
		node.Labels = n.labels
	}
	if n.machine.Exists {
		node.Machine = n.machine
	}
	for _, cr := range n.crs {
		if cr.visible {
			node.Merge(Observation{Remediating: true, Started: cr.started})
		}
	}
	return node
}

// happen has something happen to a node.
func (s *simulation) happen(name string) {
	n, check := s.nodes[name], s.checks[s.random.IntN(len(s.checks))]
	switch s.random.IntN(9) {
	case 0, 1:
		if n.since[check].IsZero() {
			n.since[check] = s.now.Add(-time.Duration(s.random.IntN(100)) * time.Second)
		}
		n.notReady = n.exists
	case 2:
		clear(n.since)
		n.notReady = false
	case 3:
		n.notReady = n.exists && !n.notReady
	case 4:
		for _, check := range s.checks {
			if cr := n.crs[check]; cr != nil && cr.visible && s.one(2) {
				delete(n.crs, check)
				delete(n.since, check)
			}
		}
	case 5:
		for _, check := range s.checks {
			if cr := n.crs[check]; cr != nil {
				cr.visible = true
			}
		}
	case 6:
		if n.exists && s.one(3) {
			n.labels = s.labels()
		}
	case 7:
		if !n.onlyMachine && s.one(4) {
			n.notReady = false
			if n.exists = !n.exists; n.exists {
				n.labels = s.labels()
			}
		}
	case 8:
		if !n.machine.Exists || s.one(2) {
			n.machine = s.machine()
		} else {
			n.machine.Exists = false
		}
	}
	s.tell(name)
}

// editBudget creates, edits or deletes a budget. What was admitted before does not begin any more.
func (s *simulation) editBudget() {
	for _, check := range s.checks {
		s.conclude(check)
	}
	name := fmt.Sprintf("budget-%d", s.random.IntN(4))
	old := s.budgets[name]
	if old != nil && s.one(3) {
		delete(s.budgets, name)
		s.counts.RemoveBudget(name)
		return
	}
	fresh := s.budget(name)
	if old != nil && s.one(2) { // An edit; an interval stays what it was.
		fresh.UID, fresh.Status, fresh.Spec.MinInterval = old.UID, old.Status, old.Spec.MinInterval
		fresh.floor = old.floor
		switch {
		case fresh.Spec.TopologyKey != old.Spec.TopologyKey || (fresh.Spec.NodeSelector == nil) != (old.Spec.NodeSelector == nil):
			for group, at := range old.began {
				last := old.last[group]
				n := s.nodes[last]
				if n == nil || len(n.crs) == 0 {
					fresh.floor = latest(fresh.floor, at) // It may have been in any group.
				} else if group, selected := fresh.groupOf(n); selected {
					fresh.begin(group, last, at)
				}
			}
		case len(fresh.matchLabels()) <= len(old.matchLabels()):
			fresh.began, fresh.last = old.began, old.last
		}
	}
	s.budgets[name] = fresh
	s.counts.SetBudget(Parse(fresh.RemediationBudget), PastOf(fresh.RemediationBudget, s.now))
}

// budget returns a random budget.
func (s *simulation) budget(name string) *simulatedBudget {
	var options []option
	limits := []string{"0", "1", "2", "3", "0%", "10%", "30%", "50%", "100%"}
	limit := func() string { return limits[s.random.IntN(len(limits))] }
	if s.one(2) {
		options = append(options, maxUnhealthy(limit()))
	}
	if s.one(2) {
		options = append(options, maxConcurrent(limit()))
	}
	if s.one(2) || len(options) == 0 {
		options = append(options, minInterval(time.Duration(1+s.random.IntN(120))*time.Second))
	}
	if s.one(2) {
		options = append(options, byZone)
	}
	if s.one(3) {
		options = append(options, selecting("role", "worker"))
	}
	if s.one(3) {
		options = append(options, ofMachines)
	}
	if s.one(3) {
		options = append(options, schedule("*/4 * * * *", "", 2*time.Minute))
	}
	if s.one(20) {
		options = append(options, maxConcurrent("x"))
	}
	b := &simulatedBudget{RemediationBudget: budget(name, options...), began: map[string]time.Time{}, last: map[string]string{}}
	s.uids++
	b.UID = types.UID(fmt.Sprint(s.uids))
	return b
}

// candidates are what a health check wants to begin.
func (s *simulation) candidates(check Asker) (requests []Request) {
	for _, name := range s.names() {
		n := s.nodes[name]
		if since := n.since[check]; !since.IsZero() && (n.crs[check] == nil || !n.crs[check].visible) {
			requests = append(requests, Request{Node: name, Since: since, Begins: !s.one(8)})
		}
	}
	return requests
}

// catchUp has the caches show the last writes of a health check, except those it does not know of.
func (s *simulation) catchUp(check Asker) {
	for name, n := range s.nodes {
		if r := s.counts.reservationOf(name); n.crs[check] != nil && (r == nil || r.expires.IsZero()) {
			n.crs[check].visible = true
			s.tell(name)
		}
	}
}

// conclude carries out the admitted remediations.
func (s *simulation) conclude(check Asker) {
	for _, name := range s.admitted[check] {
		n, result := s.nodes[name], Usage(s.random.IntN(4))
		if len(n.crs) > 0 && n.crs[check] == nil {
			result = Rejected // Another health check has the lease.
		}
		switch {
		case result == Rejected && !s.yields(check, name):
			s.vain[attempted{check, name}] = s.now
		case result == Begun, result == Uncertain:
			delete(s.vain, attempted{check, name})
		}
		s.counts.End(check, name, result, s.now)
		s.forgetLabels()
		if n.crs[check] == nil && (result == Begun || result == Uncertain && s.one(2)) {
			n.crs[check] = &simulatedCR{started: s.now.Truncate(time.Second)}
			for _, b := range s.budgets {
				if group, selected := b.groupOf(n); selected {
					b.begin(group, name, n.crs[check].started)
				}
			}
		}
	}
	delete(s.admitted, check)
}

// yields reports whether a node comes after all others: something else has refused it within a minute.
func (s *simulation) yields(check Asker, name string) bool {
	first, vain := s.vain[attempted{check, name}]
	return vain && s.now.Sub(first) < time.Minute
}

// forgetLabels forgets those of nodes and Machines that are gone without a CR or a reservation.
func (s *simulation) forgetLabels() {
	for name, n := range s.nodes {
		if n.machine.Exists || s.remediating(name) {
			continue
		}
		if n.machine = (Machine{}); !n.exists {
			n.labels = nil
		}
	}
}

func (s *simulation) remediating(name string) bool {
	return s.nodes[name].told().Remediating || s.counts.reservationOf(name) != nil
}

func (b *simulatedBudget) matchLabels() map[string]string {
	if machines := b.Spec.MachineSelector; machines != nil {
		return machines.Selector.MatchLabels
	}
	return b.Spec.NodeSelector.MatchLabels
}

func (b *simulatedBudget) groupOf(n *simulatedNode) (group string, selected bool) {
	labels := n.labels
	if machines := b.Spec.MachineSelector; machines != nil {
		if n.machine.Namespace != machines.Namespace {
			return "", false
		}
		labels = n.machine.Labels
	}
	for key, value := range b.matchLabels() {
		if labels[key] != value {
			return "", false
		}
	}
	return labels[b.Spec.TopologyKey], true
}

// counts reports whether what the budget is about exists.
func (b *simulatedBudget) counts(n *simulatedNode) bool {
	if b.Spec.MachineSelector != nil {
		return n.machine.Exists
	}
	return n.exists
}

// restart starts a new process: it knows what status and caches say.
func (s *simulation) restart() {
	statuses := map[string]*nhcv1alpha1.RemediationBudgetStatus{}
	for name, b := range s.budgets {
		statuses[name] = s.counts.Status(name, &b.Status, s.now)
		for group := range s.counts.find(name).groups {
			if b.floor.After(b.began[group]) {
				b.began[group], b.last[group] = b.floor, ""
			}
		}
		b.floor = time.Time{}
	}
	s.counts, s.admitted, s.vain = NewCounts(), map[Asker][]string{}, map[attempted]time.Time{}
	for name, n := range s.nodes {
		for _, cr := range n.crs {
			cr.visible = true
		}
		if !n.exists {
			n.labels = nil
		}
		if !n.machine.Exists {
			n.machine = Machine{}
		}
		s.tell(name)
	}
	for name, b := range s.budgets {
		b.Status = *statuses[name]
		s.counts.SetBudget(Parse(b.RemediationBudget), PastOf(b.RemediationBudget, s.now))
	}
}

// expire lets a minute pass: then the caches show the remediations that have begun.
func (s *simulation) expire() {
	for name, n := range s.nodes {
		for _, cr := range n.crs {
			cr.visible = cr.visible || !s.now.Before(cr.started.Add(uncertainFor))
		}
		s.tell(name)
	}
	s.counts.Expire(s.now)
	s.forgetLabels()
}

// scratch returns Counts that learn at once what those of the simulation have learnt bit by bit.
func (s *simulation) scratch() *Counts {
	c := NewCounts()
	for _, name := range s.counts.Budgets() {
		known := s.counts.find(name)
		c.SetBudget(Parse(s.budgets[name].RemediationBudget), &Past{Started: known.started})
		c.find(name).floor = known.floor
	}
	for name, n := range s.nodes {
		node, r := n.told(), s.counts.reservationOf(name)
		if node.Labels, node.Machine = n.labels, n.machine; r != nil {
			r = new(*r)
			c.reserved.Insert(name)
		}
		c.update(name, func(fresh *countedNode) { fresh.Node, fresh.reservation = node, r })
	}
	c.yielding = maps.Clone(s.counts.yielding)
	for asker, waiting := range s.counts.waiting {
		c.waiting[asker] = &queue{woken: waiting.woken}
		for _, w := range waiting.waiters {
			c.waiting[asker].waiters = append(c.waiting[asker].waiters, new(*w))
			c.waiting[asker].waiters[len(c.waiting[asker].waiters)-1].refusedBy = slices.Clone(w.refusedBy)
		}
	}
	return c
}
