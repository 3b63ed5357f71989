// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package referee

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nhc-controller/nhc-controller/test/rules"
)

// Settled waits until all is as it has to be when nothing is in the way any more, and
// returns what is not so when timeout is over. Faults must be off.
func (r *Referee) Settled(ctx context.Context, timeout time.Duration) []rules.Violation {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var left []rules.Violation
	begin, awaited := time.Now(), ""
	for {
		if err := r.Judge(ctx); err == nil {
			if left = r.unsettled(); len(left) == 0 {
				return nil
			}
			if first := left[0]; first.Rule+first.Node+first.NHC != awaited {
				awaited = first.Rule + first.Node + first.NHC
				r.config.Log("not settled after %s: %d things, the first is %s %s %s: %s", time.Since(begin).Round(time.Millisecond), len(left), first.Rule, first.Node, first.NHC, first.Text)
			}
		} else if ctx.Err() == nil {
			left = []rules.Violation{{Rule: "referee", Text: err.Error()}}
		}
		if ctx.Err() != nil {
			return r.fail(left)
		}
		pause(ctx, 4*retryInterval)
	}
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

// Silent waits for a while in which nobody changes anything, and returns what the
// controller has written meanwhile: nothing but its leader lease (P3). Events tell of
// what was before.
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
