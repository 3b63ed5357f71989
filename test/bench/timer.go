// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// timerOutcome is how soon remediations appear when nothing but time makes a node
// unhealthy.
type timerOutcome struct {
	// Late is from the moment at which a node became unhealthy until the remediation
	// was seen. It must not be negative.
	Late     distribution `json:"late"`
	Control  distribution `json:"control"` // As in latency.
	RatioP50 float64      `json:"ratioP50"`
}

func measureTimer(ctx context.Context, e *environment) (outcome, error) {
	control, err := e.startControl(ctx, minimal, "-group="+groupControl)
	if err != nil {
		return nil, err
	}
	defer control.Stop()
	var late, controlled []time.Duration
	for range e.options.timerSamples {
		// At any time of a second, of which Kubernetes knows none.
		if err := sleep(ctx, time.Duration(e.random.Int64N(int64(time.Second)))); err != nil {
			return nil, err
		}
		node := nodeName(e.random.IntN(e.nodes))
		since := time.Now().Truncate(time.Second)
		if err := e.setReadySince(ctx, node, corev1.ConditionUnknown, since); err != nil {
			return nil, err
		}
		seen, err := e.awaitCR(ctx, node)
		if err != nil {
			return nil, err
		}
		late = append(late, seen.Sub(since.Add(unhealthyAfter)))
		if err := e.tracker.waitFor(ctx, "the entry of "+node, func() bool { return e.tracker.listed[node] }); err != nil {
			return nil, err
		}
		if _, err := e.recover(ctx, node); err != nil {
			return nil, err
		}
		appeared, _, _, err := e.failAndRecover(ctx, controlName(e.random.IntN(controlNodes)), false)
		if err != nil {
			return nil, err
		}
		controlled = append(controlled, appeared)
	}
	if err := control.end(ctx); err != nil {
		return nil, err
	}
	r := &timerOutcome{Late: distributionOf(late), Control: distributionOf(controlled)}
	r.RatioP50 = ratio(r.Late.P50, r.Control.P50)
	return r, nil
}

func (r *timerOutcome) goals() []goal {
	return []goal{
		{Scenario: "timer", What: "lateness of the CR, min", Value: r.Late.Min, Unit: "ms", AtLeast: new(0.0)},
		{Scenario: "timer", What: "lateness of the CR, p50 (control)", Value: r.Late.P50, Control: new(r.Control.P50), Unit: "ms"},
		{Scenario: "timer", What: "lateness of the CR, max (control)", Value: r.Late.Max, Control: new(r.Control.Max), Unit: "ms"},
		{Scenario: "timer", What: "ratio of p50", Value: r.RatioP50, AtMost: new(atMostP50)},
	}
}
