// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/status"
)

// syncResult is one sync after it has acted, and its report.
type syncResult struct {
	*snapshot
	*evaluation.Evaluated
	*status.Report
	results []remediation.NodeResult
	now     time.Time
}

// newSyncResult computes the report. The first report of a process assumes that another process has
// reported everything that is gone.
func newSyncResult(s *snapshot, e *evaluation.Evaluated, results []remediation.NodeResult, now time.Time) *syncResult {
	if !s.state.observed {
		s.state.observed, s.state.reported = true, s.state.reported.WithCreated(s.gone)
	}
	report := status.New(&status.Input{
		Check: s.nhc, Policy: &e.Policy, Summary: e.Summary, Results: results, Listed: s.listed, Gone: s.gone,
		TemplateProblem: s.templates.Problem, TemplatesUnknown: s.templates.Unknown, PlatformProblem: s.platform.access,
		Overlaps: s.overlaps, Now: now,
		Before: status.Known{Ledger: s.state.ledger, Entries: s.state.entries, Reported: s.state.reported},
	})
	return &syncResult{snapshot: s, Evaluated: e, Report: report, results: results, now: now}
}

// report reports the actions, and publishes the status unless it may wait. It returns the
// instant at which to look again.
func (c *Controller) report(ctx context.Context, s *snapshot, e *evaluation.Evaluated, results []remediation.NodeResult, now time.Time) (time.Time, error) {
	e.SettleStorm(&s.nhc.Spec, results, now)
	r := newSyncResult(s, e, results, now)
	recheck := health.Earliest(r.recheck(), c.recheckLostRaces(s, results))
	c.waiters.set(s.nhc.Name, slices.ContainsFunc(results, waits))
	s.state.healthy = s.seesHealthy(r.Entries)
	c.reportActions(ctx, r)
	if until := r.deferStatus(s.state.lastWrite); !until.IsZero() {
		klog.FromContext(ctx).V(4).Info("Status waits, there is more to do", "until", until)
		s.state.deferred = r
		return health.Earliest(recheck, until), nil
	}
	if err := c.publish(ctx, r); err != nil {
		return time.Time{}, err
	}
	return recheck, nil
}

// publish writes the status, and then reports the transitions by events, metrics and logs.
func (c *Controller) publish(ctx context.Context, r *syncResult) error {
	r.state.deferred = nil
	before := r.state.stormOf(r.nhc)
	written, err := c.writeStatus(ctx, r.nhc, r.Status)
	if err != nil {
		r.state.conflicted, r.state.unwritten = apierrors.IsConflict(err), true
		r.state.storm = r.Storm.Unwritten(before)
		return err
	}
	r.state.storm, r.state.unwritten = r.Storm, false
	if written != "" {
		r.state.written = written
		r.state.lastWrite = c.Clock.Now()
	}
	transitions := r.Transitions()
	c.metrics.update(r)
	c.events.record(r.nhc, transitions)
	r.logTransitions(ctx, transitions)
	r.logDecisions(ctx)
	r.rememberReport()
	c.lastStates.used(r.nhc.Name, r.gone)
	return nil
}

// publishDeferred publishes the waiting reports at the end of the process. Otherwise the next
// leader would report the same once more.
func (c *Controller) publishDeferred(ctx context.Context) {
	for _, r := range c.states.deferred() {
		logger := klog.LoggerWithValues(klog.FromContext(ctx), "nodeHealthCheck", r.nhc.Name)
		if err := c.publish(klog.NewContext(ctx, logger), r); err != nil {
			logger.Error(err, "Stopping without the last status")
		}
	}
}

// reportActions reports the actions by events and logs.
func (c *Controller) reportActions(ctx context.Context, r *syncResult) {
	actions, reported := r.Actions()
	c.events.record(r.nhc, actions)
	logEvents(ctx, actions)
	r.state.reported = reported
}

// recheck returns the next instant at which time alone changes a verdict or a plan, makes a CR
// old, or makes another attempt due. It is now if plans were left to the next batch.
func (r *syncResult) recheck() time.Time {
	next := health.Earliest(r.Recheck, r.Policy.Context.StormEnd)
	next = health.Earliest(next, r.nextAttempt())
	for _, result := range r.results {
		next = health.Earliest(next, result.Plan.Recheck)
		if result.Outcome.Result == remediation.Deferred {
			next = health.Earliest(next, r.now)
		}
		for _, cr := range result.Plan.Node.Own {
			if old := cr.CreationTimestamp.Add(v1alpha1.OldRemediationAge); old.After(r.now) {
				next = health.Earliest(next, old)
			}
		}
	}
	return next
}

// rememberReport keeps the state that the next report is compared with.
func (r *syncResult) rememberReport() {
	state := r.state
	state.reported = r.Reported()
	state.entries, state.ledger, state.gateClosed = r.Entries, r.Ledger, !r.Gate.Open
	// The report has their end, and says that the controller deleted them.
	requested := map[types.UID]bool{}
	for _, result := range r.results {
		for _, cr := range result.Plan.Node.Own {
			if state.deletionRequested[cr.UID] {
				requested[cr.UID] = true
			}
		}
	}
	for _, uid := range r.lost {
		requested[uid] = true
	}
	state.deletionRequested = requested
}
