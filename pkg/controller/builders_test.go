// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testCheck returns a NodeHealthCheck.
func testCheck(changes ...func(*v1alpha1.NodeHealthCheck)) *v1alpha1.NodeHealthCheck {
	nhc := &v1alpha1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers-uid", Generation: 3, ResourceVersion: "10"}}
	for _, change := range changes {
		change(nhc)
	}
	return nhc
}

// testNode returns a Node.
func testNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	for _, change := range changes {
		change(node)
	}
	return node
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

func annotated(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
}

// testCR returns a CR of a node.
func testCR(node, uid string, changes ...func(*remediation.CR)) *remediation.CR {
	cr := &remediation.CR{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "RebootRemediation"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "remediators", Name: node, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(epoch),
			Annotations: map[string]string{v1alpha1.AnnotationNodeName: node, v1alpha1.AnnotationTemplateName: "reboot"},
		},
	}
	for _, change := range changes {
		change(cr)
	}
	return cr
}

func crSucceeded(cr *remediation.CR) { cr.Succeeded = "True" }
func crDeleting(cr *remediation.CR)  { cr.DeletionTimestamp = new(metav1.NewTime(epoch)) }
func crMarked(cr *remediation.CR) {
	cr.Annotations[v1alpha1.AnnotationTimedOut] = "2026-01-01T00:05:00Z"
}
func crAt(at time.Time) func(*remediation.CR) {
	return func(cr *remediation.CR) { cr.CreationTimestamp = metav1.NewTime(at) }
}

// entryOf is the entry of a CR in status.
func entryOf(cr *remediation.CR, changes ...func(*v1alpha1.Remediation)) v1alpha1.Remediation {
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

// part is what a sync sees of one node, decides about it, and brings about.
type part struct {
	// object is nil for a Node that is deleted.
	object  *corev1.Node
	plan    remediation.NodePlan
	outcome remediation.Outcome
	// gone are CRs that went before the sync, as they were seen last.
	gone []*remediation.CR
}

// seen returns a part for a node with this state.
func seen(name string, state health.State, changes ...func(*part)) part {
	p := part{object: testNode(name)}
	p.plan.Node = remediation.Node{Name: name, UID: p.object.UID}
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

func own(crs ...*remediation.CR) func(*part) {
	return func(p *part) {
		p.plan.Node.Own = crs
		if len(crs) > 0 {
			p.plan.Reason, p.plan.Running = v1alpha1.DecidedStepRunning, crs[0]
		}
	}
}
func refused(why remediation.Refusal) func(*part) {
	return func(p *part) { p.plan.Refusal, p.plan.Reason = why, v1alpha1.DecisionReason(why) }
}
func gone(crs ...*remediation.CR) func(*part) { return func(p *part) { p.gone = crs } }
func created(cr *remediation.CR) func(*part)  { return createdAt(cr, epoch) }
func createdAt(cr *remediation.CR, at time.Time) func(*part) {
	return func(p *part) { p.outcome.Created, p.outcome.CreatedAt = cr, at }
}
func deleted(crs ...*remediation.CR) func(*part) {
	return func(p *part) { p.outcome.Deleted = crs }
}
func foundGone(crs ...*remediation.CR) func(*part) { return func(p *part) { p.outcome.Gone = crs } }
func ended(at time.Time, crs ...*remediation.CR) func(*part) {
	return func(p *part) {
		p.outcome.TimedOut = map[types.UID]time.Time{}
		for _, cr := range crs {
			p.outcome.TimedOut[cr.UID] = at
		}
	}
}
func stepFailed(cr *remediation.CR) func(*part) {
	return func(p *part) { p.plan.Failed, p.plan.Reason = cr, v1alpha1.DecidedStepFailed }
}
func exhausted(p *part)  { p.plan.Exhausted = true }
func delayed(p *part)    { p.plan.Delayed = true }
func unselected(p *part) { p.plan.Node.Circumstances.Unselected = true }
func nodeDeleted(p *part) {
	p.object, p.plan.Node.UID, p.plan.Node.Verdict = nil, "", health.Verdict{}
	p.plan.Node.Circumstances.NodeDeleted = true
}
func unreadable(entries ...v1alpha1.Remediation) func(*part) {
	return func(p *part) { p.plan.Node.Unreadable = entries }
}
func node(changes ...func(*corev1.Node)) func(*part) {
	return func(p *part) {
		for _, change := range changes {
			change(p.object)
		}
	}
}

// story is a NodeHealthCheck over several syncs.
type story struct {
	nhc      *v1alpha1.NodeHealthCheck
	now      time.Time
	memory   *memory
	memories memories
	metrics  *metrics
	registry *prometheus.Registry
	// world is changed before a sync sees it.
	world func(*world)
}

func newStory(t *testing.T, changes ...func(*v1alpha1.NodeHealthCheck)) *story {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	require.NoError(t, err)
	s := &story{nhc: testCheck(changes...), now: epoch, metrics: metrics, registry: registry, world: func(w *world) { w.gate.Open = true }}
	s.restart()
	return s
}

// restart forgets what the process remembers.
func (s *story) restart() {
	s.memories = memories{}
	s.memory = s.memories.of(s.nhc)
}

// round returns the round of a sync that sees these parts.
func (s *story) round(parts ...part) *round {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.plan.Node.Name, b.plan.Node.Name) })
	w := &world{objects: map[string]*corev1.Node{}}
	r := &round{nhc: s.nhc.DeepCopy(), world: w, now: s.now}
	recorded := map[string]v1alpha1.UnhealthyNode{}
	for _, entry := range s.nhc.Status.UnhealthyNodes {
		recorded[entry.Name] = entry
	}
	for _, p := range parts {
		if p.plan.Node.DeletionRequested == nil {
			p.plan.Node.DeletionRequested = s.memory.deletionRequested
		}
		w.gone = append(w.gone, p.gone...)
		if entry, known := recorded[p.plan.Node.Name]; known {
			p.plan.Node.Recorded = entry.Remediations
			if entry.ConditionsHealthyTimestamp != nil {
				p.plan.Node.HealthySince = entry.ConditionsHealthyTimestamp.Time
			}
		}
		if p.object != nil {
			w.objects[p.object.Name] = p.object
			if !p.plan.Node.Circumstances.Unselected {
				w.fleet.Observed++
			}
			if p.plan.Node.Verdict.State == health.Unhealthy {
				w.fleet.Unhealthy++
			}
		}
		r.plans = append(r.plans, p.plan)
		r.outcomes = append(r.outcomes, p.outcome)
	}
	s.world(w)
	w.script = &remediation.Script{NHC: r.nhc, Steps: remediation.Steps(&r.nhc.Spec), Grounds: w.grounds(r.nhc)}
	r.ledger, r.ended = s.memory.ledger.Update(w.observations(r.plans, r.outcomes, s.now), s.now)
	r.entries = newEntries(r.nhc, w, r.plans, r.outcomes, r.ledger, s.memory.decisions, s.now)
	r.decisions = decisionsIn(r.entries)
	r.status = newStatus(r.nhc, w, r.entries, r.ledger, s.now)
	return r
}

// sync reports a round in the order of Controller.report, and returns the events as
// reason and note.
func (s *story) sync(parts ...part) []string {
	r := s.round(parts...)
	for i := range r.outcomes {
		for _, cr := range r.outcomes[i].Deleted {
			s.memory.deletionRequested[cr.UID] = true // As Controller.remember does.
		}
	}
	all := append(removals(r.world, r.plans, r.outcomes), r.transitions(s.memory)...)
	s.metrics.initialize(r.nhc)
	s.metrics.countCreations(r.nhc.Name, r.plans, r.outcomes)
	s.metrics.update(r, s.memory)
	r.remember(s.memory)
	s.nhc.Status = *r.status.DeepCopy()
	s.now = s.now.Add(time.Second)
	var told []string
	for _, e := range all {
		told = append(told, e.reason+": "+e.note)
	}
	return told
}

// values returns the values of a metric by the values of its labels.
func (s *story) values(t *testing.T, name string) map[string]float64 {
	t.Helper()
	values, _ := s.gather(t, name)
	return values
}

// sums returns the sums of the samples of a histogram by the values of its labels.
func (s *story) sums(t *testing.T, name string) map[string]float64 {
	t.Helper()
	_, sums := s.gather(t, name)
	return sums
}

func (s *story) gather(t *testing.T, name string) (values, sums map[string]float64) {
	t.Helper()
	families, err := s.registry.Gather()
	require.NoError(t, err)
	values, sums = map[string]float64{}, map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			key := ""
			for _, label := range metric.GetLabel() {
				key += "/" + label.GetValue()
			}
			// Only one of these is set; of a histogram, the number of samples counts.
			values[key] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			sums[key] = metric.GetHistogram().GetSampleSum()
		}
	}
	return values, sums
}
