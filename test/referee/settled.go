// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// Settled waits until everything is as it has to be without obstacles. It gives up when nothing more
// has settled for the time of timeout, and returns what is not settled. The controller writes events
// at a limited rate: the events of many nodes follow for minutes, but they do follow. Faults must be
// off.
func (r *Referee) Settled(ctx context.Context, timeout time.Duration) []rules.Violation {
	begin := time.Now()
	deadline, fewest, awaited := begin.Add(timeout), math.MaxInt, ""
	var left []rules.Violation
	for {
		unsettled, err := r.judgeUntil(ctx, deadline)
		switch {
		case err == nil && len(unsettled) == 0:
			return nil
		case err == nil:
			left = unsettled
		case left == nil || time.Now().Before(deadline):
			left = []rules.Violation{{Rule: "referee", Text: err.Error()}}
		}
		if err == nil && len(left) < fewest {
			fewest, deadline = len(left), time.Now().Add(timeout)
		}
		if first := left[0]; first.Rule+first.Node+first.NHC != awaited {
			awaited = first.Rule + first.Node + first.NHC
			r.config.Log("not settled after %s: %d things, the first is %s %s %s: %s", time.Since(begin).Round(time.Millisecond), len(left), first.Rule, first.Node, first.NHC, first.Text)
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return r.fail(left)
		}
		pause(ctx, 4*retryInterval)
	}
}

// judgeUntil judges everything until now, and returns what is unsettled.
func (r *Referee) judgeUntil(ctx context.Context, deadline time.Time) ([]rules.Violation, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := r.Judge(ctx); err != nil {
		return nil, err
	}
	return r.unsettled(), nil
}

func (r *Referee) unsettled() []rules.Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.judge.Unsettled(time.Now())
}

// fail makes violations of what did not settle.
func (r *Referee) fail(left []rules.Violation) []rules.Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range left {
		left[i].Text = "did not settle: " + left[i].Text
	}
	r.notSettled = append(r.notSettled, left...)
	return left
}

// Silent waits for a while in which the test changes nothing, and returns the writes of
// the controller in that time. It may only write its leader lease (P3). Events report
// earlier actions.
func (r *Referee) Silent(ctx context.Context, d time.Duration) ([]rules.Request, error) {
	from := time.Now()
	pause(ctx, d+auditDelay)
	requests, err := r.Requests()
	if err != nil {
		return nil, fmt.Errorf("reading the requests: %w", err)
	}
	return slices.DeleteFunc(requests, func(request rules.Request) bool {
		leader := request.Resource == rules.Leases.Resource && request.Namespace != r.config.LeaseNamespace
		return request.Time.Before(from) || request.Reads() || leader || request.Group == "events.k8s.io"
	}), nil
}
