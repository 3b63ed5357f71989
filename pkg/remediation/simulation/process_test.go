// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// process is all that is lost when the controller stops: its caches, what it remembers
// between syncs, and its timers. What it does is what package controller does, which
// cannot be imported here.
type process struct {
	world               *world
	nodes, leases, nhcs *informer
	remediations        map[string]*informer
	// written is the newest version that a sync wrote, by NodeHealthCheck and table.
	written map[string]map[*table]int
	// requested holds the CRs whose deletion was requested, by NodeHealthCheck.
	requested map[string]map[types.UID]bool
	retries   map[retryID]*retry
	// decisions are those of the last report, by NodeHealthCheck and node.
	decisions map[string]map[string]v1alpha1.Decision
	place     placeHolder
	// wake is when time alone starts the next sync, and dirty who is to be synced now.
	wake  map[string]time.Time
	dirty map[string]bool
	// busy are the syncs under way.
	busy map[string]bool
}

type retryID struct {
	nhc, node string
	state     health.State
	deleted   bool
}

type retry struct {
	failures int
	due      time.Time
	failure  string
	failed   v1alpha1.DecisionReason
}

type placeHolder struct {
	nhc, node string
	table     *table
	version   int
	until     time.Time
}

// informer is a cache of one table that has got as far as position.
type informer struct {
	table             *table
	position, version int
	// listed is what had happened when the process started.
	listed int
	items  map[string]*item
}

func newInformer(t *table, position int) *informer {
	i := &informer{table: t, listed: len(t.changes), items: map[string]*item{}}
	i.advance(position)
	return i
}

// advance takes in up to n more changes, and reports whether there were any.
func (i *informer) advance(n int) bool {
	end := min(i.position+n, len(i.table.changes))
	for _, change := range i.table.changes[i.position:end] {
		if change.item == nil {
			delete(i.items, change.key)
		} else {
			i.items[change.key] = change.item
		}
		i.version = change.version
	}
	changed := end > i.position
	i.position = end
	return changed
}

func (i *informer) current() bool { return i.position == len(i.table.changes) }

// boot starts the process. What its first lists return may be a little old.
func (w *world) boot(age int) {
	list := func(t *table) *informer { return newInformer(t, max(0, len(t.changes)-age)) }
	p := &process{
		world: w,
		nodes: list(w.nodes), leases: list(w.leases), nhcs: newInformer(w.nhcs, len(w.nhcs.changes)), remediations: map[string]*informer{},
		written: map[string]map[*table]int{}, requested: map[string]map[types.UID]bool{}, retries: map[retryID]*retry{}, decisions: map[string]map[string]v1alpha1.Decision{},
		wake: map[string]time.Time{}, dirty: map[string]bool{}, busy: map[string]bool{},
	}
	for kind, t := range w.remediations {
		p.remediations[kind] = list(t)
	}
	w.process = p
	for _, i := range w.nhcs.live {
		if w.tempests[stormKey(i.nhc)].raging {
			w.seen["storm: restart"]++
		}
	}
	p.soil()
}

// soil makes everybody look again.
func (p *process) soil() {
	for name := range p.nhcs.items {
		p.dirty[name] = true
	}
}

func (p *process) informers() []*informer {
	all := []*informer{p.nodes, p.leases, p.nhcs}
	for _, kind := range sorted(p.remediations) {
		all = append(all, p.remediations[kind])
	}
	return all
}

// catchUp takes in all that has happened.
func (p *process) catchUp() {
	for _, i := range p.informers() {
		if i.advance(len(i.table.changes)) {
			p.soil()
		}
	}
}

func (p *process) current() bool {
	return !slices.ContainsFunc(p.informers(), func(i *informer) bool { return !i.current() })
}

// behind reports whether a cache does not show yet what a sync of nhc has written.
func (p *process) behind(nhc string) bool {
	for _, i := range p.informers() {
		if p.written[nhc][i.table] > i.version {
			return true
		}
	}
	delete(p.written, nhc)
	return false
}

func (p *process) wrote(nhc string, t *table, version string) {
	if p.written[nhc] == nil {
		p.written[nhc] = map[*table]int{}
	}
	number, _ := strconv.Atoi(version)
	p.written[nhc][t] = max(p.written[nhc][t], number)
}
