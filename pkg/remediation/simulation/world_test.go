// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// The simulated loop. A world holds what an API server holds, under a clock of its
// own (this file); clients write to it (simulation_clients_test.go), and remediators,
// other operators and the garbage collector live in it (simulation_actors_test.go). A
// controller (simulation_process_test.go) with informer caches that may lag observes
// it (simulation_sight_test.go), plans with Script.Plan, acts through the real Executor
// (simulation_sync_test.go) and writes status (simulation_status_test.go). Requests
// fail, or are carried out and their answer is lost, or the process dies at any of
// them, and between any two of them the world moves on. What may never happen is
// checked at every plan (simulation_rules_test.go, simulation_progress_test.go), at every
// request (simulation_writes_test.go) and after every sync (simulation_outcome_test.go).
// Storms (simulation_storm_test.go) have rules of their own (simulation_tempest_test.go).
// Decisions are compared with the world (simulation_decision_test.go and
// simulation_verdict_test.go) and with what the future brings
// (simulation_foresight_test.go).
//
//	go test ./pkg/remediation -run TestSimulation -simulation.seed=17 -v
//	go test ./pkg/remediation -run TestSimulation -simulation.seeds=20000
//	go test ./pkg/remediation -run TestSimulationGolden -update
type world struct {
	random     *rand.Rand
	start, now time.Time
	version    int
	uids       int

	nodes, leases, nhcs *table
	// remediations are the tables of the CRs, by kind.
	remediations map[string]*table
	templates    map[string]*object.Template
	// brokenTemplates cannot be used, and unreadable kinds cannot be read.
	brokenTemplates, unreadable map[string]bool
	// faults is how often a request goes wrong, and meddling how often the world
	// moves between two requests, both in percent.
	faults, meddling int
	// meddle is what happens then.
	meddle func()
	// fate decides about requests instead of chance.
	fate func(what string) fate
	// denied are kinds whose webhook denies changes.
	denied map[string]bool
	// moves counts what others have done, so that a check can report whether a sync still
	// knows the world.
	moves int

	process *process
	// doing is the plan that is being carried out.
	doing *doing
	// writes counts our writes to each CR after its creation.
	writes map[types.UID]int
	// created are the CRs that we have created, and the version at which.
	created map[types.UID]int
	// unwell is when a sync that has written status last saw a node not healthy, by
	// NodeHealthCheck and node.
	unwell map[string]time.Time
	// tempests are the storms that there have to be, by NodeHealthCheck and version.
	// restless is when a sync that has written status last saw one that was not calm, and
	// calmed the generation for which one was, by NodeHealthCheck.
	tempests map[string]tempest
	restless map[string]time.Time
	calmed   map[string]int64
	timeline []line
	requests int
	// planned is what was planned last, by NodeHealthCheck and node.
	planned map[string]string
	// told are the decisions that the timeline shows, in the same way.
	told map[string]string
	// seen counts what has happened, so that the test can report whether it tests
	// anything.
	seen map[string]int
}

// line is one entry of the timeline. An empty node means all nodes.
type line struct {
	at         time.Time
	node, text string
}

// A violation is what a check found. It ends the simulation.
type violation struct{ node, text string }

// crash ends the process.
type crash struct{}

func newWorld(seed uint64) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, seed)), start: epoch, now: epoch,
		nodes:        newTable("nodes"),
		leases:       newTable("leases"),
		nhcs:         newTable("nodehealthchecks"),
		remediations: map[string]*table{}, templates: map[string]*object.Template{},
		brokenTemplates: map[string]bool{}, unreadable: map[string]bool{}, denied: map[string]bool{},
		writes: map[types.UID]int{}, created: map[types.UID]int{}, unwell: map[string]time.Time{}, planned: map[string]string{}, seen: map[string]int{},
		tempests: map[string]tempest{}, restless: map[string]time.Time{}, calmed: map[string]int64{}, told: map[string]string{},
	}
	w.meddle = func() {}
	return w
}

func (w *world) violate(node, rule string, format string, args ...any) {
	panic(violation{node: node, text: rule + ": " + fmt.Sprintf(format, args...)})
}

func (w *world) log(node, format string, args ...any) {
	w.timeline = append(w.timeline, line{at: w.now, node: node, text: fmt.Sprintf(format, args...)})
}

// chance is true in n of 100 cases.
func (w *world) chance(n int) bool { return n > 0 && w.random.IntN(100) < n }

func oneOf[T any](w *world, options ...T) T { return options[w.random.IntN(len(options))] }

// sorted returns the keys of a map in order, so that a seed stands for one course of
// events.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// table is what the API server holds of one resource.
type table struct {
	resource schema.GroupResource
	live     map[string]*item
	// changes is what a watch sends.
	changes []change
}

// item is one object at one version. It is immutable.
type item struct {
	node    *corev1.Node
	lease   *coordinationv1.Lease
	nhc     *v1alpha1.NodeHealthCheck
	raw     *unstructured.Unstructured
	cr      *object.CR
	version int
}

type change struct {
	key     string
	version int
	// item is nil for a deletion.
	item *item
}

func newTable(resource string) *table {
	return &table{resource: schema.GroupResource{Resource: resource}, live: map[string]*item{}}
}

func (w *world) put(t *table, key string, i *item) {
	w.version++
	i.version = w.version
	t.live[key] = i
	t.changes = append(t.changes, change{key: key, version: w.version, item: i})
}

func (w *world) remove(t *table, key string) {
	w.version++
	delete(t.live, key)
	t.changes = append(t.changes, change{key: key, version: w.version})
}

func (w *world) nextVersion() string { return strconv.Itoa(w.version + 1) }

func (w *world) newUID() types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("uid-%d", w.uids))
}

// seconds is the present time as the API stores it.
func (w *world) seconds() metav1.Time { return metav1.NewTime(w.now.Truncate(time.Second)) }

func (w *world) putNode(node *corev1.Node) {
	node.ResourceVersion = w.nextVersion()
	w.put(w.nodes, node.Name, &item{node: node})
}

func (w *world) node(name string) *corev1.Node {
	if i := w.nodes.live[name]; i != nil {
		return i.node
	}
	return nil
}

func (w *world) changeNode(name string, change func(*corev1.Node)) {
	node := w.node(name).DeepCopy()
	change(node)
	w.putNode(node)
}

func (w *world) putLease(lease *coordinationv1.Lease) {
	lease.ResourceVersion = w.nextVersion()
	w.put(w.leases, lease.Name, &item{lease: lease})
}

func (w *world) lease(node string) *coordinationv1.Lease {
	if i := w.leases.live[object.LeaseName(node)]; i != nil {
		return i.lease
	}
	return nil
}

func (w *world) nhc(name string) *v1alpha1.NodeHealthCheck { return w.nhcs.live[name].nhc }

func (w *world) putNHC(nhc *v1alpha1.NodeHealthCheck) {
	storm := w.tempests[stormKey(nhc)]
	nhc.ResourceVersion = w.nextVersion()
	w.tempests[stormKey(nhc)] = storm
	w.put(w.nhcs, nhc.Name, &item{nhc: nhc})
}

func (w *world) changeSpec(name string, change func(*v1alpha1.NodeHealthCheckSpec)) {
	nhc := w.nhc(name).DeepCopy()
	change(&nhc.Spec)
	nhc.Generation++
	w.putNHC(nhc)
}

func crKey(raw metav1.Object) string { return raw.GetNamespace() + "/" + raw.GetName() }

func (w *world) putCR(raw *unstructured.Unstructured) {
	raw.SetResourceVersion(w.nextVersion())
	w.put(w.remediations[raw.GetKind()], crKey(raw), &item{raw: raw, cr: object.ParseCR(raw)})
}

// changeCR changes a CR on behalf of others. Without finalizers and with a
// deletionTimestamp it goes.
func (w *world) changeCR(cr *object.CR, change func(*unstructured.Unstructured)) {
	t := w.remediations[cr.Kind]
	raw := t.live[crKey(cr)].raw.DeepCopy()
	change(raw)
	if raw.GetDeletionTimestamp() != nil && len(raw.GetFinalizers()) == 0 {
		w.remove(t, crKey(cr))
		return
	}
	w.putCR(raw)
}

// deleteCR requests the deletion of a CR, on anybody's behalf.
func (w *world) deleteCR(cr *object.CR) {
	if w.remediations[cr.Kind].live[crKey(cr)].cr.Deleting() {
		return
	}
	w.changeCR(cr, func(raw *unstructured.Unstructured) { raw.SetDeletionTimestamp(new(w.seconds())) })
}

// crs returns all CRs in order.
func (w *world) crs() []*object.CR {
	var all []*object.CR
	for _, kind := range sorted(w.remediations) {
		for _, key := range sorted(w.remediations[kind].live) {
			all = append(all, w.remediations[kind].live[key].cr)
		}
	}
	return all
}

// ownCRs are the CRs that a NodeHealthCheck owns for a node, going or not.
func (w *world) ownCRs(nhc, node string) []*object.CR {
	var own []*object.CR
	for _, cr := range w.crs() {
		if cr.OwnedBy(ownerNamed(nhc)) && cr.Node() == node {
			own = append(own, cr)
		}
	}
	return own
}

// fate is what becomes of a request.
type fate int

const (
	goesWell fate = iota
	fails
	losesAnswer
	diesBefore
	diesAfter
)

// fateOf is up to chance, unless somebody has decided it.
func (w *world) fateOf(what string) fate {
	if w.fate != nil {
		return w.fate(what)
	}
	if !w.chance(w.faults) {
		return goesWell
	}
	return oneOf(w, fails, fails, losesAnswer, diesBefore, diesAfter)
}

// request carries out a request of the controller, or does not, or lies about it.
func (w *world) request(node, what string, apply func() error) error {
	w.requests++
	if w.chance(w.meddling) {
		w.meddle()
	}
	switch w.fateOf(what) {
	case diesBefore:
		w.seen["death before a request"]++
		w.log(node, "  %s: the process dies before it", what)
		panic(crash{})
	case diesAfter:
		err := apply()
		w.seen["death after a request"]++
		w.log(node, "  %s: the process dies after it (%s)", what, result(err))
		panic(crash{})
	case losesAnswer:
		err := apply()
		w.seen["lost answer"]++
		w.log(node, "  %s: the answer is lost (%s)", what, result(err))
		return apierrors.NewTimeoutError("simulated", 1)
	case fails:
		w.log(node, "  %s: failed", what)
		return apierrors.NewInternalError(errors.New("simulated"))
	case goesWell:
	}
	err := apply()
	if err != nil {
		w.log(node, "  %s: %v", what, err)
	} else {
		w.log(node, "  %s", what)
	}
	return err
}

func result(err error) string {
	if err != nil {
		return err.Error()
	}
	return "it was carried out"
}

func hasConfirmation(node *corev1.Node) bool {
	_, confirmed := node.Annotations[v1alpha1.AnnotationManuallyConfirmedHealthy]
	return confirmed
}

// terms describes a lease.
func (w *world) terms(lease *coordinationv1.Lease) string {
	at := func(t *metav1.MicroTime) string {
		if t == nil {
			return "never"
		}
		return w.clock(t.Time)
	}
	duration := "none"
	if lease.Spec.LeaseDurationSeconds != nil {
		duration = (time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second).String()
	}
	return fmt.Sprintf("(holder %q, acquired %s, renewed %s, for %s, transitions %d)",
		leaseHolder(lease), at(lease.Spec.AcquireTime), at(lease.Spec.RenewTime), duration, transitions(lease))
}

// clock writes an instant as the time since the start.
func (w *world) clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	since := t.Sub(w.start)
	sign := "+"
	if since < 0 {
		sign, since = "-", -since
	}
	text := fmt.Sprintf("%s%02d:%02d:%02d", sign, int(since.Hours()), int(since.Minutes())%60, int(since.Seconds())%60)
	if part := since % time.Second; part != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%09d", part.Nanoseconds()), "0")
	}
	return text
}
