// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	nhclisters "github.com/nhc-controller/nhc-controller/pkg/generated/listers/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/nodeindex"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/pkg/sightings"
	"github.com/nhc-controller/nhc-controller/pkg/watches"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// What tests begin with.
var (
	epoch      = objecttest.Epoch
	testCheck  = objecttest.Check
	failsReady = objecttest.FailsReady
	testNode   = objecttest.Node
	labelled   = objecttest.LabelledNode
	annotated  = objecttest.AnnotatedNode
	testCR     = objecttest.StepOf

	crSucceeded = objecttest.Succeeded
	crDeleting  = objecttest.Deleting
)

func crMarked(cr *object.CR) {
	cr.Annotations[v1alpha1.AnnotationTimedOut] = "2026-01-01T00:05:00Z"
}
func crAt(at time.Time) func(*object.CR) {
	return func(cr *object.CR) { cr.CreationTimestamp = metav1.NewTime(at) }
}

// entryOf is the entry of a CR in status.
func entryOf(cr *object.CR, changes ...func(*v1alpha1.Remediation)) v1alpha1.Remediation {
	entry := v1alpha1.Remediation{
		Resource: corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "RebootRemediation", Namespace: "remediators", Name: cr.Name, UID: cr.UID},
		Started:  cr.CreationTimestamp, TemplateName: "reboot",
	}
	for _, change := range changes {
		change(&entry)
	}
	return entry
}

func entryTimedOut(at time.Time) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.TimedOut = new(metav1.NewTime(at)) }
}

// testSnapshot is a snapshot with these nodes, in order of name, all of them selected.
func testSnapshot(nhc *v1alpha1.NodeHealthCheck, nodes ...*corev1.Node) *snapshot {
	s := &snapshot{nhc: nhc, state: (&nhcStates{}).of(nhc), selector: labels.Everything(), observed: len(nodes), claim: reconcile.NoMachineHealthChecks.ClaimOf}
	for _, node := range nodes {
		observed := remediation.Node{Name: node.Name, UID: node.UID}
		facts := evaluation.FactsOf(node)
		observed.Constraints.NodeConstraints = evaluation.ConstraintsOf(node, &facts, s.selects(node), "")
		s.nodes, s.objects = append(s.nodes, observed), append(s.objects, node)
	}
	return s
}

// part is what a sync sees of one node, decides about it, and brings about.
type part struct {
	// node is nil for a Node that is deleted.
	node    *corev1.Node
	plan    remediation.NodePlan
	outcome remediation.Outcome
	// gone are CRs that went before the sync, as they were seen last.
	gone []*object.CR
}

// seen returns a part for a node with this state.
func seen(name string, state health.State, changes ...func(*part)) part {
	p := part{node: testNode(name)}
	p.plan.Node = &remediation.Node{Name: name, UID: p.node.UID}
	p.plan.Node.Verdict.State = state
	if state != health.Healthy {
		p.plan.Node.Verdict = health.Verdict{State: state, Type: "Ready", Status: "Unknown", Since: epoch.Add(-time.Minute), Deadline: epoch}
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func sick(name string, changes ...func(*part)) part { return seen(name, health.Unhealthy, changes...) }
func soon(name string, changes ...func(*part)) part {
	return seen(name, health.SoonUnhealthy, changes...)
}
func well(name string, changes ...func(*part)) part { return seen(name, health.Healthy, changes...) }

func own(crs ...*object.CR) func(*part) {
	return func(p *part) {
		p.plan.Node.Own = crs
		if len(crs) > 0 {
			p.plan.Reason, p.plan.Running = v1alpha1.DecidedStepRunning, crs[0]
		}
	}
}
func refused(why v1alpha1.DecisionReason) func(*part) {
	return func(p *part) { p.plan.Refused, p.plan.Reason = why != "", why }
}
func gone(crs ...*object.CR) func(*part) { return func(p *part) { p.gone = crs } }
func created(cr *object.CR) func(*part)  { return createdAt(cr, epoch) }
func createdAt(cr *object.CR, at time.Time) func(*part) {
	return func(p *part) { p.outcome.Result, p.outcome.CR, p.outcome.CreatedAt = remediation.Created, cr, at }
}
func deleted(crs ...*object.CR) func(*part) {
	return func(p *part) { p.outcome.Deleted = crs }
}
func foundGone(crs ...*object.CR) func(*part) { return func(p *part) { p.outcome.Gone = crs } }
func ended(at time.Time, crs ...*object.CR) func(*part) {
	return func(p *part) {
		p.outcome.TimedOut = map[types.UID]time.Time{}
		for _, cr := range crs {
			p.outcome.TimedOut[cr.UID] = at
		}
	}
}
func stepFailed(cr *object.CR) func(*part) {
	return func(p *part) { p.plan.Failed, p.plan.Reason = cr, v1alpha1.DecidedStepFailed }
}
func exhausted(p *part)  { p.plan.Exhausted = true }
func delayed(p *part)    { p.plan.Delayed = true }
func unselected(p *part) { p.plan.Node.Constraints.Unselected = true }
func nodeDeleted(p *part) {
	p.node, p.plan.Node.UID, p.plan.Node.Verdict = nil, "", health.Verdict{}
	p.plan.Node.Constraints.NodeDeleted = true
}
func unreadable(entries ...v1alpha1.Remediation) func(*part) {
	return func(p *part) { p.plan.Node.Unreadable = entries }
}
func node(changes ...func(*corev1.Node)) func(*part) {
	return func(p *part) {
		for _, change := range changes {
			change(p.node)
		}
	}
}

// story is a NodeHealthCheck over several syncs.
type story struct {
	nhc      *v1alpha1.NodeHealthCheck
	now      time.Time
	state    *nhcState
	states   nhcStates
	metrics  *metrics
	registry *prometheus.Registry
	// observe changes what a sync has observed.
	observe func(*observed)
}

func newStory(t *testing.T, changes ...func(*v1alpha1.NodeHealthCheck)) *story {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	require.NoError(t, err)
	s := &story{nhc: testCheck(changes...), now: epoch, metrics: metrics, registry: registry, observe: func(w *observed) { w.Gate.Open = true }}
	s.restart()
	return s
}

// restart forgets what the process remembers.
func (s *story) restart() {
	s.states = nhcStates{}
	s.state = s.states.of(s.nhc)
}

// observed is what a sync has observed and evaluated.
type observed struct {
	*snapshot
	*evaluation.Evaluated
}

// result returns the result of a sync that sees these parts.
func (s *story) result(parts ...part) *syncResult {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.plan.Node.Name, b.plan.Node.Name) })
	sn, e := &snapshot{nhc: s.nhc.DeepCopy(), state: s.state}, &evaluation.Evaluated{}
	sn.templates.Steps = remediation.Steps(&s.nhc.Spec)
	for _, p := range parts {
		if p.plan.Node.DeletionRequested == nil {
			p.plan.Node.DeletionRequested = s.state.deletionRequested
		}
		sn.gone = append(sn.gone, p.gone...)
		if p.node != nil {
			p.plan.Node.Created = p.node.CreationTimestamp.Time
			exclusion, labelled := p.node.Labels[v1alpha1.LabelExclude]
			p.plan.Node.ExclusionIgnored = labelled && exclusion == ""
			if !p.plan.Node.Constraints.Unselected {
				e.Summary.Observed++
			}
			if p.plan.Node.Verdict.State == health.Unhealthy {
				e.Summary.Unhealthy++
			}
		}
		sn.nodes, sn.objects = append(sn.nodes, *p.plan.Node), append(sn.objects, p.node)
	}
	sn.observeEntries()
	e.Gate.Observed = max(1, e.Summary.Observed) // Tests about healthy nodes list none.
	results := make([]remediation.NodeResult, len(parts))
	for i := range parts {
		parts[i].plan.Node = &sn.nodes[i]
		results[i] = remediation.NodeResult{Plan: &parts[i].plan, Outcome: &parts[i].outcome}
	}
	s.observe(&observed{sn, e})
	sn.objects = append(sn.objects, make([]*corev1.Node, len(sn.nodes)-len(sn.objects))...)
	e.Upgrading = e.Upgrading || sn.platform.progressing
	e.SetPolicy(sn.input())
	return newSyncResult(sn, e, results, s.now)
}

// sync reports a sync in the order of Controller.report, and returns the events as
// reason and note.
func (s *story) sync(parts ...part) []string {
	r := s.result(parts...)
	for _, result := range r.results {
		for _, cr := range result.Outcome.Deleted {
			s.state.deletionRequested[cr.UID] = true // As Controller.remember does.
		}
	}
	all, _ := r.Actions()
	all = append(all, r.Transitions()...)
	s.metrics.initialize(r.nhc)
	s.metrics.countOutcomes(r.nhc.Name, r.results)
	s.metrics.update(r)
	r.rememberReport()
	s.nhc.Status = *r.Status.DeepCopy()
	s.now = s.now.Add(time.Second)
	var lines []string
	for _, e := range all {
		lines = append(lines, e.Reason+": "+e.Note)
	}
	return lines
}

// values returns the values of a metric by the values of its labels.
func (s *story) values(t *testing.T, name string) map[string]float64 {
	t.Helper()
	values, _ := s.gather(t)
	return values[name]
}

// sums returns the sums of the samples of a histogram by the values of its labels.
func (s *story) sums(t *testing.T, name string) map[string]float64 {
	t.Helper()
	_, sums := s.gather(t)
	return sums[name]
}

// gather returns the values of all metrics, and the sums of the samples of histograms, by
// name and by the values of the labels.
func (s *story) gather(t *testing.T) (values, sums map[string]map[string]float64) {
	t.Helper()
	families, err := s.registry.Gather()
	require.NoError(t, err)
	values, sums = map[string]map[string]float64{}, map[string]map[string]float64{}
	for _, family := range families {
		name := family.GetName()
		values[name], sums[name] = map[string]float64{}, map[string]float64{}
		for _, metric := range family.GetMetric() {
			key := ""
			for _, label := range metric.GetLabel() {
				key += "/" + label.GetValue()
			}
			// Only one of these is set; of a histogram, the number of samples counts.
			values[name][key] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			sums[name][key] = metric.GetHistogram().GetSampleSum()
		}
	}
	return values, sums
}

// queueingController returns a bareController that has a queue. The caller ends it.
func queueingController() *Controller {
	c := bareController()
	c.Queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	return c
}

// bareController returns a controller with empty caches that has neither informers nor metrics.
func bareController() *Controller {
	store, nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), reconcile.NodeCache{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nodeIndexers)}
	checks := checksIn(store)
	return &Controller{
		Shell: &reconcile.Shell{
			Config: reconcile.Config{
				Budgets: budget.None{}, Clock: clock.RealClock{}, LeaseNamespace: "leases",
				Sightings: sightings.New(func() time.Time { return epoch }, func() int64 { return 1 }), Freshness: watches.NewFreshness(),
			},
			Checks: checks, NodeCache: nodes, LeaseCache: cache.NewIndexer(cache.MetaNamespaceKeyFunc, checks.LeaseIndexers()),
		},
		nhcs: nhclisters.NewNodeHealthCheckLister(store), index: nodeindex.New(nodes), machineHealthChecks: reconcile.NoMachineHealthChecks,
	}
}
