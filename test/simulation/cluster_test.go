// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/memapi"
	"github.com/nhc-controller/nhc-controller/test/rules"
)

// The resources of the cluster.
var (
	nodes  = corev1.SchemeGroupVersion.WithResource("nodes")
	leases = coordinationv1.SchemeGroupVersion.WithResource("leases")
	events = eventsv1.SchemeGroupVersion.WithResource("events")
	nhcs   = v1alpha1.SchemeGroupVersion.WithResource(v1alpha1.Plural)

	remediators = schema.GroupVersion{Group: "remediators.example.com", Version: "v1"}
)

// controllerUser is the user of all replicas.
const controllerUser = "nhc-controller"

// cluster is a simulated cluster: the API server, the processes of the controller, and all
// that decides what happens to both. The goroutine of the walk calls its methods,
// except those that say something else.
type cluster struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // It is that of the whole simulation.
	server *memapi.Server
	random *rand.Rand
	seed   uint64
	judge  *rules.Judge
	synced *syncLog // Of scenarios.
	// deadlines find late reactions.
	deadlines *rules.Deadlines
	// unjudged means that there is what the judge does not know.
	unjudged bool
	// window is that of requests that fail. Lagging are the watches that are late, if any are,
	// by lagBy, and lag is their window.
	window, lag *rules.FaultWindow
	lagging     *schema.GroupVersionResource
	lagBy       time.Duration
	// checked is when the rules were checked last.
	checked time.Time
	// judged and audited are the numbers of changes and requests that the judge has got.
	judged, audited int

	kinds    []remediator
	machines *machineAPI // Nil in a cluster without Machines.
	budgeted bool        // Whether users have RemediationBudgets.
	replicas []*replica
	// born is the number of processes so far.
	born    int
	workers int
	events  atomic.Int64
	seen    map[string]int
	// writes counts the status writes of one second, by process and object. extra is how many more there may
	// be. looping is an object that was written too often.
	writes map[string]int
	extra  map[string]int
	second int64
	// hourly counts the writes of an object within an hour while the cluster settles, and replaced the new Machines.
	hourly   map[string]int
	replaced int
	hour     int64
	settling bool
	looping  string

	// twinsLeft is how many twins the walk may still have, and looked at how many changes it has looked for an occasion.
	twinsLeft, looked int
	// misreported has the times that Nodes have from a wrong clock.
	misreported sets.Set[string]

	mu sync.Mutex // Guards what requests read.
	// faults is how many of 1,000 requests have one.
	faults int
	// denied are the requests that a webhook denies: verbs and kinds.
	denied map[string]bool
	// counts has how often a request was made, so that its fate does not depend on the order
	// of requests that are made at the same instant.
	counts map[string]uint64
	// disturbed is when the controller has recovered from what went wrong.
	disturbed time.Time
	// slow is how much longer it takes to list or watch a resource, or until requests with a verb for one arrive, and
	// slowFirst the next time only.
	slow, slowFirst map[string]time.Duration
	// staleBy is how stale first lists are.
	staleBy time.Duration
	// deathIn is the number of requests of the leader until it dies, 0 if it does not.
	deathIn int
	// happened counts the faults.
	happened map[string]int
}

// chance is true in n of 100 cases.
func (c *cluster) chance(n int) bool { return c.random.IntN(100) < n }

func oneOf[T any](c *cluster, options ...T) T { return options[c.random.IntN(len(options))] }

// sorted returns the keys of a map in order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// newCluster returns a cluster with nodes and NodeHealthChecks, and with Machines if the seed has some.
func newCluster(ctx context.Context, t *testing.T, seed uint64) *cluster {
	t.Helper()
	c := emptyCluster(ctx, t, seed, apiOf(seed))
	c.populate()
	if c.machines != nil {
		c.machines.populate()
	}
	if c.budgeted {
		c.populateBudgets()
	}
	return c
}

// emptyCluster returns a cluster that serves all kinds, and the Machines of an API, nil for none.
func emptyCluster(ctx context.Context, t *testing.T, seed uint64, api *apiOfMachines) *cluster {
	t.Helper()
	c := &cluster{
		t: t, ctx: ctx, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), seen: map[string]int{}, workers: 1,
		denied: map[string]bool{}, slow: map[string]time.Duration{}, slowFirst: map[string]time.Duration{}, counts: map[string]uint64{}, happened: map[string]int{}, misreported: sets.New[string](), disturbed: time.Now(), checked: time.Now(),
	}
	c.server = memapi.New(
		memapi.Resource{GroupVersionResource: nodes, Kind: "Node", Unconditional: true},
		memapi.Resource{GroupVersionResource: events, Kind: "Event", Namespaced: true, Unconditional: true, NoStatus: true},
		memapi.Resource{GroupVersionResource: leases, Kind: "Lease", Namespaced: true, NoStatus: true},
	)
	c.server.Install("admin", memapi.Resource{GroupVersionResource: nhcs, Kind: v1alpha1.Kind, Admit: admitNHC})
	if c.chance(50) {
		c.server.DisableWatchLists()
	}
	config := rules.Config{NodeLag: 30 * time.Second}
	c.budgeted = hasBudgets(seed)
	if c.budgeted || c.chance(50) { // Without the kind there are no budgets either.
		c.server.Install("admin", memapi.Resource{GroupVersionResource: budgets, Kind: nhcv1alpha1.BudgetKind})
	}
	if api != nil {
		c.machines = newMachineAPI(c, api)
		config.Machines = c.machines.serve()
	}
	c.kinds = slices.Clone(allRemediators)
	c.random.Shuffle(len(c.kinds), func(i, j int) { c.kinds[i], c.kinds[j] = c.kinds[j], c.kinds[i] })
	c.kinds = c.kinds[:2+c.random.IntN(2)]
	for i := range c.kinds {
		c.kinds[i].install(c)
		config.Remediations = append(config.Remediations, c.kinds[i].crs())
		config.Templates = append(config.Templates, c.kinds[i].templates())
	}
	c.judge = newJudge(config)
	c.deadlines = rules.NewDeadlines(c.judge)
	if c.machines != nil {
		c.machines.createHome()
	}
	return c
}

// follow gives the judge all that has happened.
func (c *cluster) follow() {
	requests := c.server.Requests(c.audited)
	c.audited += len(requests)
	changes := c.server.Changes(c.judged)
	c.judged += len(changes)
	c.feed(requests, changes)
}

// node returns a Node, nil if there is none.
func (c *cluster) node(name string) *unstructured.Unstructured {
	return c.server.Get(nodes, memapi.Key{Name: name})
}

// nhc returns a NodeHealthCheck, nil if there is none.
func (c *cluster) nhc(name string) *v1alpha1.NodeHealthCheck {
	object := c.server.Get(nhcs, memapi.Key{Name: name})
	if object == nil {
		return nil
	}
	return as[v1alpha1.NodeHealthCheck](object)
}

func (c *cluster) nhcNames() []string { return namesOf(c.server.List(nhcs)) }

// nodeNames are those of the Nodes to which something may happen.
func (c *cluster) nodeNames() []string {
	return slices.DeleteFunc(namesOf(c.server.List(nodes)), func(name string) bool { return name == homeNode })
}

func namesOf(objects []*unstructured.Unstructured) []string {
	names := make([]string, 0, len(objects))
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	return names
}

// as returns an object as a typed one.
func as[T any](object *unstructured.Unstructured) *T {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		panic(err)
	}
	return typed
}

// from returns a typed object as it is sent.
func from(object any) *unstructured.Unstructured {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: raw}
}

// crs returns all CRs.
func (c *cluster) crs() []*rules.CR {
	var all []*rules.CR
	for i := range c.kinds {
		for _, object := range c.server.List(c.kinds[i].crs()) {
			all = append(all, rules.ParseCR(object))
		}
	}
	return all
}

// log adds to the timeline.
func (c *cluster) log(format string, args ...any) {
	if *verbose {
		c.t.Logf("%s %s", clockOf(time.Now()), fmt.Sprintf(format, args...))
	}
	c.judge.Remark(time.Now(), format, args...)
}

// epoch is when every bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// clockOf writes an instant as the time since the beginning.
func clockOf(at time.Time) string { return fmt.Sprintf("%12.6f", at.Sub(epoch).Seconds()) }

// fate returns the random numbers that decide about a request: they depend on the seed, the
// request and how often it was made, not on what else happens.
func (c *cluster) fate(request *memapi.Request, replica string) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprint(hash, replica, request.Verb, request.Resource, request.Subresource, request.Namespace, "/", request.Name)
	key := hash.Sum64()
	id := fmt.Sprint(key)
	c.counts[id]++
	return rand.New(rand.NewPCG(c.seed^key, c.counts[id]))
}

// admitNHC is the policy about the deletion of NodeHealthChecks (spec 4.5). All else that is refused is part of the CRD.
func admitNHC(old, object *unstructured.Unstructured) error {
	if object != nil {
		return nil
	}
	before := as[v1alpha1.NodeHealthCheck](old)
	_, allowed := before.Annotations[v1alpha1.AnnotationAllowDelete]
	if !allowed && slices.ContainsFunc(before.Status.UnhealthyNodes, func(node v1alpha1.UnhealthyNode) bool { return len(node.Remediations) > 0 }) {
		return apierrors.NewForbidden(nhcs.GroupResource(), old.GetName(), errors.New("deletion prohibited due to running remediation"))
	}
	return nil
}
