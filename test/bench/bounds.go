// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/meter"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

// boundsOutcome is how much a storm delays what must not wait for its end (spec 8.4).
// The longest time counts, not the usual one.
type boundsOutcome struct {
	Failing int     `json:"failing"` // Nodes.
	Create  float64 `json:"create"`  // From the first failure until the last CR, in seconds.

	// Recoveries are of nodes of the storm that have a CR: from the answer to the write of
	// the recovery until the deletion of the CR was requested.
	Recoveries samples `json:"recoveries"`
	// Failures are of nodes of another NodeHealthCheck: from the answer to the write of the
	// failure until the CR was requested.
	Failures samples `json:"failures"`

	// LeaseTimes is how far acquireTime and renewTime are from the arrival of the request
	// that wrote them.
	LeaseTimes distribution `json:"leaseTimes"`

	// The metric of the time from detection to creation, and what it should be by the
	// audit log: number of samples, and the mean in seconds.
	MetricCount, AuditCount float64
	MetricMean, AuditMean   float64

	Termination termination `json:"termination"`
}

// samples are times from the answer to a write of the bench until a request of the
// controller: the API server, which the storm keeps busy, takes its time for the write
// itself. Zero means that the request came before the answer.
type samples struct {
	Times  distribution `json:"times"`
	Writes distribution `json:"writes"` // How long the writes of the bench took.
}

// sample is a node that changed during the storm.
type sample struct {
	node string
	sent time.Time
	took time.Duration
}

const (
	otherNHC = "bench-other"
	// otherNodes fail one after the other. There are more than a storm has time for.
	otherNodes = 128
	// boundInStorm is for everything that must not wait, and for what times may be off.
	boundInStorm = 2.0
	boundOfExit  = 5.0
	// detectionMetric is that of spec 20.2.
	detectionMetric = "nhc_detection_to_creation_seconds"
)

// measureBounds lets many nodes fail at once, twice: it takes samples during the first
// storm, and terminates the controller during the second.
func measureBounds(ctx context.Context, e *environment) (outcome, error) {
	e.stopController() // It may still have events of earlier scenarios.
	err := sideBySide(ctx, otherNodes, writers, func(ctx context.Context, i int) error {
		return e.createNode(ctx, otherName(i), groupOther, i)
	})
	if err != nil {
		return nil, err
	}
	if err := e.createNHC(ctx, otherNHC, groupOther); err != nil {
		return nil, err
	}
	if err := e.startController(ctx); err != nil {
		return nil, err
	}
	r := &boundsOutcome{Failing: max(1, e.nodes*stormPercent/100)}
	victims := make([]string, 0, r.Failing)
	for _, i := range e.random.Perm(e.nodes)[:r.Failing] {
		victims = append(victims, nodeName(i))
	}
	if err := e.sampleStorm(ctx, victims, r); err != nil {
		return nil, err
	}
	if err := e.terminateInStorm(ctx, victims, &r.Termination); err != nil {
		return nil, err
	}
	err = e.admin.nhc.RemediationV1alpha1().NodeHealthChecks().Delete(ctx, otherNHC, metav1.DeleteOptions{})
	return r, err
}

// sampler has single nodes change while the creations of a storm are under way.
type sampler struct {
	e       *environment
	victims []string
	changed sync.WaitGroup

	mu                   sync.Mutex
	recoveries, failures []sample
	unhealthySince       map[string]time.Time // Of all nodes that have failed.
	err                  error

	changing map[string]bool // Nodes of samples. Only for storm and what it calls.
}

// fail has a node become unhealthy now, at a full second as all times of conditions are.
func (s *sampler) fail(ctx context.Context, node string) error {
	since := time.Now().Truncate(time.Second)
	s.mu.Lock()
	s.unhealthySince[node] = since
	s.mu.Unlock()
	return s.e.setReadySince(ctx, node, corev1.ConditionFalse, since)
}

// storm has all victims fail, and takes samples until all have got a CR.
func (s *sampler) storm(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, errors.New("not all CRs of the storm came"))
	defer cancel()
	s.changed.Go(func() {
		s.note(sideBySide(ctx, len(s.victims), writers, func(ctx context.Context, i int) error { return s.fail(ctx, s.victims[i]) }))
	})
	interval := max(50*time.Millisecond, time.Duration(len(s.victims))*time.Second/4000)
	next := time.Now()
	var err error
	for i := 0; err == nil; err = sleep(ctx, 10*time.Millisecond) {
		candidate, waiting := s.progress()
		if waiting == 0 {
			break
		}
		if candidate == "" || time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(interval)
		s.take(&s.recoveries, candidate, func() error { return s.e.setReady(ctx, candidate, true) })
		if other := otherName(i); i < otherNodes {
			s.take(&s.failures, other, func() error { return s.fail(ctx, other) })
		}
		i++
	}
	s.changed.Wait()
	if err = errors.Join(err, s.err); err != nil {
		return err
	}
	return s.e.tracker.waitFor(ctx, "the consequences of the samples", func() bool {
		hasCR := func(of sample) bool { return !s.e.tracker.crs[of.node].IsZero() }
		lacksCR := func(of sample) bool { return !hasCR(of) }
		return !slices.ContainsFunc(s.recoveries, hasCR) && !slices.ContainsFunc(s.failures, lacksCR)
	})
}

// progress returns a victim that has a CR and has not recovered, and how many have not
// had a CR yet.
func (s *sampler) progress() (candidate string, waiting int) {
	t := s.e.tracker
	t.read(func() {
		for _, node := range s.victims {
			_, has := t.crs[node]
			switch {
			case s.changing[node]:
			case !has:
				waiting++
			case candidate == "":
				candidate = node
			}
		}
	})
	return candidate, waiting
}

// take changes a node, beside everything else.
func (s *sampler) take(list *[]sample, node string, change func() error) {
	s.changing[node] = true
	taken := sample{node: node, sent: time.Now()}
	s.changed.Go(func() {
		s.note(change())
		taken.took = time.Since(taken.sent)
		s.mu.Lock()
		defer s.mu.Unlock()
		*list = append(*list, taken)
	})
}

// note keeps the first error.
func (s *sampler) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// sampleStorm measures what other things wait for during a storm.
func (e *environment) sampleStorm(ctx context.Context, victims []string, r *boundsOutcome) error {
	before, err := e.detections(ctx)
	if err != nil {
		return err
	}
	s := &sampler{e: e, victims: victims, unhealthySince: map[string]time.Time{}, changing: map[string]bool{}}
	begin := time.Now()
	if err := s.storm(ctx); err != nil {
		return err
	}
	if err := e.awaitQuietStatus(ctx); err != nil {
		return err
	}
	after, err := e.detections(ctx)
	if err != nil {
		return err
	}
	requests, err := e.requestsSince(begin)
	if err != nil {
		return err
	}
	leases, err := e.leaseTimes(ctx, requests)
	if err != nil {
		return err
	}
	creations, deletions := requestsForCRs(requests, "create"), requestsForCRs(requests, "delete")
	var last time.Time
	for _, node := range victims {
		if at := creations[node].Time; at.After(last) {
			last = at
		}
	}
	r.Create = last.Sub(begin).Seconds()
	if r.Recoveries, err = samplesOf(s.recoveries, last, deletions); err != nil {
		return err
	}
	if r.Failures, err = samplesOf(s.failures, last, creations); err != nil {
		return err
	}
	r.LeaseTimes = distributionOf(leases)
	r.LeaseTimes.Samples = nil
	r.MetricCount, r.MetricMean = after.count-before.count, ratio(after.sum-before.sum, after.count-before.count)
	for node, request := range creations {
		r.AuditCount++
		r.AuditMean += request.Answered.Sub(s.unhealthySince[node]).Seconds()
	}
	r.AuditMean = ratio(r.AuditMean, r.AuditCount)
	nodes := victims
	for _, other := range s.failures {
		nodes = append(nodes, other.node)
	}
	return e.recoverAll(ctx, nodes)
}

// recoverAll has nodes recover, and waits until nothing of their remediation is left.
func (e *environment) recoverAll(ctx context.Context, nodes []string) error {
	err := sideBySide(ctx, len(nodes), writers, func(ctx context.Context, i int) error { return e.setReady(ctx, nodes[i], true) })
	if err != nil {
		return err
	}
	return e.tracker.waitFor(ctx, "the end of all remediations", e.tracker.allClean)
}

// samplesOf returns how long after the writes of the samples their requests arrived. Samples that were
// taken when the last CR of the storm had been requested do not count.
func samplesOf(taken []sample, last time.Time, requests map[string]localkube.Request) (samples, error) {
	var times, writes []time.Duration
	for _, s := range taken {
		if s.sent.After(last) {
			continue
		}
		request, found := requests[s.node]
		if !found {
			return samples{}, fmt.Errorf("no request followed the change of node %s", s.node)
		}
		times, writes = append(times, max(0, request.Time.Sub(s.sent)-s.took)), append(writes, s.took)
	}
	return samples{Times: distributionOf(times), Writes: distributionOf(writes)}, nil
}

// requestsForCRs returns the first successful request with a verb for the CR of each
// node, which has the name of the node.
func requestsForCRs(requests []localkube.Request, verb string) map[string]localkube.Request {
	first := map[string]localkube.Request{}
	for _, r := range requests { // In order.
		if _, known := first[r.Name]; !known && r.Verb == verb && r.Resource == remediator.Resource.Resource && r.Code < 300 {
			first[r.Name] = r
		}
	}
	return first
}

// leaseTimes returns how far the times in the leases of nodes are from the requests that
// created them.
func (e *environment) leaseTimes(ctx context.Context, requests []localkube.Request) ([]time.Duration, error) {
	list, err := e.admin.kube.CoordinationV1().Leases(leaseNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the leases of nodes: %w", err)
	}
	created := map[string]time.Time{}
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == "leases" && r.Namespace == leaseNamespace && r.Code < 300 {
			created[r.Name] = r.Time
		}
	}
	var off []time.Duration
	for i := range list.Items {
		lease := &list.Items[i]
		at, known := created[lease.Name]
		if !known || lease.Spec.AcquireTime == nil || lease.Spec.RenewTime == nil {
			return nil, fmt.Errorf("lease %s has no times, or nothing created it", lease.Name)
		}
		off = append(off, max(at.Sub(lease.Spec.AcquireTime.Time).Abs(), at.Sub(lease.Spec.RenewTime.Time).Abs()))
	}
	return off, nil
}

// detections are the totals of the metric of spec 20.2.
type detections struct{ sum, count float64 }

func (e *environment) detections(ctx context.Context) (detections, error) {
	body, err := meter.Scrape(ctx, e.controller, e.cluster.AdminConfig().BearerToken)
	return detections{sum: meter.Sum(body, detectionMetric+"_sum"), count: meter.Sum(body, detectionMetric+"_count")}, err
}

func (r *boundsOutcome) goals() []goal {
	row := func(what string, g goal) goal {
		g.Scenario, g.What = "bounds", what
		return g
	}
	goals := []goal{
		row("nodes that fail at once", goal{Value: float64(r.Failing)}),
		row("first failure to last CR", goal{Value: r.Create, Unit: "s"}),
	}
	for _, s := range []struct {
		what string
		samples
	}{{"recovery meanwhile to request to delete", r.Recoveries}, {"failure elsewhere to request for CR", r.Failures}} {
		if s.Times.Count == 0 {
			continue // The storm was too short.
		}
		goals = append(goals,
			row(s.what+", samples", goal{Value: float64(s.Times.Count)}),
			row(s.what+", p50 (write of the bench)", goal{Value: s.Times.P50 / 1000, Control: new(s.Writes.P50 / 1000), Unit: "s"}),
			row(s.what+", max (write of the bench)", goal{Value: s.Times.Max / 1000, Control: new(s.Writes.Max / 1000), Unit: "s", AtMost: new(boundInStorm)}))
	}
	goals = append(goals,
		row("times in leases off by, max", goal{Value: r.LeaseTimes.Max / 1000, Unit: "s", AtMost: new(boundInStorm)}),
		row("detections in the metric (creations)", goal{Value: r.MetricCount, Control: &r.AuditCount}),
		row("detection to creation by the metric, mean (by the audit log)", goal{Value: r.MetricMean, Control: &r.AuditMean, Unit: "s"}),
		row("difference of these", goal{Value: math.Abs(r.MetricMean - r.AuditMean), Unit: "s", AtMost: new(boundInStorm)}))
	for _, g := range r.Termination.goals() {
		goals = append(goals, row(g.What, g))
	}
	return goals
}
