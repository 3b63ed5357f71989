// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// simulation is a handful of nodes to which things happen at random.
type simulation struct {
	random *rand.Rand
	now    time.Time
	nodes  map[string]*simulatedNode
	uids   int
}

type simulatedNode struct {
	exists, selected bool
	created          time.Time
	state            health.State
	since            time.Time
	crs              []v1alpha1.Remediation
	// gone are CRs that went since the last sync.
	gone              []v1alpha1.Remediation
	failed, requested sets.Set[types.UID]
	replaced          sets.Set[types.UID]
	fenced            map[types.UID]time.Time
}

func newSimulation(seed uint64, nodes int) *simulation {
	w := &simulation{random: rand.New(rand.NewPCG(seed, seed)), now: at(0), nodes: map[string]*simulatedNode{}}
	for i := range nodes {
		w.nodes[fmt.Sprintf("node-%d", i)] = &simulatedNode{exists: true, selected: true, created: at(-60),
			failed: sets.New[types.UID](), requested: sets.New[types.UID](), replaced: sets.New[types.UID](), fenced: map[types.UID]time.Time{},
		}
	}
	return w
}

func (w *simulation) one(chances int) bool { return w.random.IntN(chances) == 0 }

// step lets time pass and something happen to some of the nodes.
func (w *simulation) step() {
	w.now = w.now.Add(time.Duration(w.random.Int64N(int64(40 * time.Second))))
	for _, name := range w.names() {
		if w.one(2) {
			w.happen(w.nodes[name])
		}
	}
}

func (w *simulation) names() []string {
	var names []string
	for i := range len(w.nodes) {
		names = append(names, fmt.Sprintf("node-%d", i))
	}
	return names
}

func (w *simulation) happen(p *simulatedNode) {
	switch w.random.IntN(13) {
	case 0, 1, 2:
		p.state, p.since = health.Unhealthy, w.past(30)
	case 3:
		p.state = health.SoonUnhealthy
	case 4:
		p.state = health.Healthy
	case 5:
		p.exists = false
		if !w.one(3) {
			p.drop(len(p.crs))
		}
	case 6:
		if !p.exists || w.one(4) {
			p.exists, p.created = true, w.past(5)
		}
	case 7:
		p.selected = !w.one(3)
	case 8, 9:
		if p.exists && p.state == health.Unhealthy && len(p.crs) < 4 {
			p.crs = append(p.crs, w.cr())
		}
	case 10:
		if len(p.crs) > 0 {
			w.remediate(p, w.random.IntN(len(p.crs)))
		}
	case 11:
		if w.one(60) {
			w.now = w.now.Add(2 * time.Hour)
		}
	default:
		for i := range p.crs {
			if p.state == health.Healthy {
				p.requested.Insert(p.crs[i].Resource.UID)
			}
		}
		p.drop(len(p.crs))
	}
}

// drop has the first CRs go.
func (p *simulatedNode) drop(n int) {
	p.gone = slices.Concat(p.gone, p.crs[:n])
	p.crs = slices.Clone(p.crs[n:])
}

// past returns an instant of the last seconds, in whole ones.
func (w *simulation) past(seconds int) time.Time {
	return w.now.Add(-time.Duration(w.random.IntN(seconds)) * time.Second).Truncate(time.Second)
}

func (w *simulation) cr() v1alpha1.Remediation {
	w.uids++
	cr := cr([]string{"Reboot", "Fence"}[w.random.IntN(2)], 0)
	cr.Resource.UID = types.UID(fmt.Sprint(w.uids))
	cr.Started = metav1.NewTime(w.past(3))
	return cr
}

// remediate lets something happen to a CR.
func (w *simulation) remediate(p *simulatedNode, i int) {
	switch w.random.IntN(5) {
	case 0:
		p.crs[i].TimedOut = new(metav1.NewTime(w.past(3)))
	case 1:
		p.crs[i].TimedOut = new(metav1.NewTime(w.past(3)))
		p.failed.Insert(p.crs[i].Resource.UID)
	case 2:
		p.fenced[p.crs[i].Resource.UID] = w.past(20)
	case 3:
		p.replaced.Insert(p.crs[i].Resource.UID)
	default:
		p.drop(i + 1)
	}
}

// observe returns what a sync sees of all nodes, in no order, and now and then not
// of all of them or twice. A Node that is gone may be left out.
func (w *simulation) observe() []Observation {
	var observations []Observation
	for _, i := range w.random.Perm(len(w.nodes)) {
		name := fmt.Sprintf("node-%d", i)
		p := w.nodes[name]
		if w.one(50) || (!p.exists && len(p.crs)+len(p.gone) == 0 && w.one(2)) {
			continue
		}
		observations = append(observations, w.observation(name, p))
	}
	return observations
}

func (w *simulation) observation(name string, p *simulatedNode) Observation {
	o := Observation{Node: name, NodeDeleted: !p.exists}
	for _, gone := range []bool{false, true} {
		for _, cr := range map[bool][]v1alpha1.Remediation{false: p.crs, true: p.gone}[gone] {
			uid := cr.Resource.UID
			o.CRs = append(o.CRs, CR{
				Remediation: cr, Gone: gone, Failed: p.failed.Has(uid), Requested: p.requested.Has(uid), Replaced: p.replaced.Has(uid), Fenced: p.fenced[uid],
			})
		}
	}
	p.gone = nil
	if !p.exists {
		return o
	}
	o.Created, o.State, o.Selected = p.created, p.state, p.selected
	if p.state != health.Healthy {
		o.Since = p.since
		o.Trigger = v1alpha1.Trigger{Type: corev1.NodeReady, Status: "False", Reason: p.since.Format(time.TimeOnly)}
	}
	return o
}
