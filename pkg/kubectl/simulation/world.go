// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/slot"
)

// world is the model of a cluster. Nodes and CRs are replaced, never changed.
type world struct {
	nodes map[string]*corev1.Node
	// crs are those of a node.
	crs    map[string][]*object.CR
	leases map[string]*coordinationv1.Lease
	counts *budget.Counts
	checks []*check
	events events
	// recorded are the changes that have yet to be played.
	recorded    []Version
	interrupted func() bool
	// created and planned are the numbers of CRs, and of plans of nodes, so far. After mostPlans it ends.
	created, planned, mostPlans int
	repairAfter                 time.Duration
	journal                     journal
}

func newWorld(in *Input) *world {
	w := &world{
		nodes: map[string]*corev1.Node{}, crs: map[string][]*object.CR{}, leases: map[string]*coordinationv1.Lease{},
		counts: budget.NewCounts(), repairAfter: in.RepairAfter, journal: journal{start: in.Start, lines: []Line{}, unhealthy: sets.New[string](), remediated: sets.New[string]()}, recorded: in.Recorded,
		interrupted: in.Interrupted, mostPlans: maxPlans + plansPerChange*len(in.Recorded),
	}
	for _, node := range in.Nodes {
		w.nodes[node.Name] = node
	}
	for _, b := range in.Budgets {
		w.counts.SetBudget(budget.Parse(b), budget.PastOf(b, in.Start))
	}
	byName := func(a, b *v1alpha1.NodeHealthCheck) int { return cmp.Compare(a.Name, b.Name) }
	for _, nhc := range slices.SortedFunc(slices.Values(in.Checks), byName) {
		c := newCheck(w, nhc)
		w.checks = append(w.checks, c)
		w.resume(c, in.Start)
	}
	for name := range w.nodes {
		w.count(name)
	}
	return w
}

// count updates the knowledge of budgets about a node, and which checks have to look at it.
func (w *world) count(name string) {
	node, known := w.nodes[name], budget.Node{}
	if node != nil {
		known = budget.Node{Exists: true, Labels: node.Labels, NotReady: !remediation.Ready(node)}
	}
	for _, c := range w.checks {
		if node != nil && c.needsLook(node) {
			known.Unhealthy = true
			c.suspects.Insert(name)
		} else {
			c.suspects.Delete(name)
		}
	}
	begun := map[string]time.Time{} // By owner: the next step is no beginning.
	for _, cr := range w.crs[name] {
		for _, owner := range cr.Owners() {
			begun[owner] = health.Earliest(begun[owner], cr.CreationTimestamp.Time)
		}
	}
	for _, started := range begun {
		known.Merge(budget.Observation{Remediating: true, Started: started})
	}
	w.counts.SetNode(name, known)
}

// set adds, replaces or, with nil, removes a Node.
func (w *world) set(name string, node *corev1.Node) {
	before := w.nodes[name]
	for _, c := range w.checks {
		if before != nil && c.selects(before) {
			c.selected--
		}
		if node != nil && c.selects(node) {
			c.selected++
		}
	}
	if w.nodes[name] = node; node == nil {
		delete(w.nodes, name)
	}
	w.count(name)
}

// controlPlane returns what is known about control plane nodes. Their conditions stand for etcd.
func (w *world) controlPlane() slot.ControlPlane {
	known := slot.ControlPlane{Members: []*corev1.Node{}}
	for _, node := range w.nodes {
		if remediation.IsControlPlane(node.Labels) {
			known.Members = append(known.Members, node)
		}
	}
	slices.SortFunc(known.Members, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range known.Members {
		if len(w.crs[node.Name]) > 0 {
			known.Remediated = append(known.Remediated, node.Name)
		}
	}
	return known
}

// create adds a CR, and has its node repaired in time.
func (w *world) create(desired *unstructured.Unstructured, now time.Time) *object.CR {
	w.created++
	cr := object.ParseCR(desired)
	cr.UID, cr.CreationTimestamp = types.UID(fmt.Sprintf("simulated-%d", w.created)), metav1.NewTime(now.Truncate(time.Second))
	w.add(cr, now)
	return cr
}

// add adds a CR with its own creation time, and has its node repaired in time.
func (w *world) add(cr *object.CR, now time.Time) {
	name := cr.Node()
	w.crs[name] = append(slices.Clip(w.crs[name]), cr)
	w.count(name)
	if w.repairAfter == 0 {
		return
	}
	due := cr.CreationTimestamp.Add(w.repairAfter)
	if due.Before(now) {
		due = now
	}
	w.events.add(due, func(now time.Time) { w.repair(cr, now) })
}

// repair makes the node of a CR healthy, unless the remediator was told to stop.
func (w *world) repair(cr *object.CR, now time.Time) {
	name := cr.Node()
	if slices.ContainsFunc(w.crs[name], func(current *object.CR) bool { return current.UID == cr.UID && !current.TimedOut() }) {
		w.recover(name, fmt.Sprintf("repaired %s after the remediation object was created", lasted(now.Sub(cr.CreationTimestamp.Time))), now)
	}
}

// remove removes a CR of a node.
func (w *world) remove(cr *object.CR) {
	name := cr.Node()
	w.crs[name] = slices.DeleteFunc(slices.Clone(w.crs[name]), func(current *object.CR) bool { return current.UID == cr.UID })
	if len(w.crs[name]) == 0 {
		delete(w.crs, name)
	}
	w.count(name)
}

// markTimedOut tells the remediator of a CR to stop.
func (w *world) markTimedOut(cr *object.CR, at time.Time) {
	name := cr.Node()
	crs := slices.Clone(w.crs[name])
	for i, current := range crs {
		if current.UID == cr.UID {
			marked := *current
			marked.Annotations = map[string]string{v1alpha1.AnnotationTimedOut: at.UTC().Format(time.RFC3339)}
			maps.Copy(marked.Annotations, current.Annotations)
			crs[i] = &marked
		}
	}
	w.crs[name] = crs
	w.count(name)
}
