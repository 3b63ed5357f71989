// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

func TestRetries(t *testing.T) {
	t.Parallel()
	r := newRetries()
	at := func(name string, state health.State, actions ...remediation.Action) remediation.NodePlan {
		plan := remediation.NodePlan{Node: remediation.Node{Name: name}, Actions: actions}
		plan.Node.Verdict.State = state
		return plan
	}
	a, b := at("a", health.Unhealthy, remediation.Create{}), at("b", health.Unhealthy, remediation.Create{})
	all := []remediation.NodePlan{a, b}
	require.Zero(t, r.of("nhc", &a.Node).due)
	require.Zero(t, r.next("nhc", all, epoch))

	now, last := epoch, time.Duration(0)
	for range 20 {
		r.failed("nhc", &a.Node, &remediation.Outcome{Err: errors.New("denied")}, now)
		due := r.of("nhc", &a.Node).due
		delay := due.Sub(now)
		require.Greater(t, delay, time.Duration(0), "P1: retried")
		require.LessOrEqual(t, delay, retryMax, "P12: for ever, at least once a minute")
		require.GreaterOrEqual(t, delay, last, "P1: with backoff")
		require.Equal(t, due, r.next("nhc", all, now), "P2: the sync wakes up for it")
		now, last = due, delay
	}
	require.Equal(t, retryMax, last)
	require.Zero(t, r.of("nhc", &b.Node).due, "P1: affects that item only")
	require.Zero(t, r.of("other", &a.Node).due, "P1: nor the same node of another NodeHealthCheck")
	recovered := at("a", health.Healthy)
	require.Zero(t, r.of("nhc", &recovered.Node).due, "P12: what failed for an unhealthy node does not hold up its recovery")
	deleted := at("a", health.Unhealthy)
	deleted.Node.Circumstances.NodeDeleted = true
	require.Zero(t, r.of("nhc", &deleted.Node).due)

	waits := at("a", health.Unhealthy)
	r.succeeded("nhc", &waits)
	require.NotZero(t, r.of("nhc", &a.Node).due, "nothing was tried, so nothing has succeeded")
	require.Zero(t, r.next("nhc", all, now), "P2: an attempt that is due now is made now")
	r.succeeded("nhc", &a)
	require.Zero(t, r.of("nhc", &a.Node).due, "P4: it goes with its cause")
	r.failed("nhc", &a.Node, &remediation.Outcome{Err: errors.New("denied")}, now)
	require.Equal(t, retryBase, r.of("nhc", &a.Node).due.Sub(now), "the backoff starts anew")
}

func TestRetriesForget(t *testing.T) {
	t.Parallel()
	r := newRetries()
	plan := remediation.NodePlan{Node: remediation.Node{Name: "a"}}
	r.failed("nhc", &plan.Node, &remediation.Outcome{Err: errors.New("denied")}, epoch)
	r.failed("nhc", &plan.Node, &remediation.Outcome{Err: errors.New("denied")}, epoch)
	require.Zero(t, r.next("nhc", nil, epoch), "P4: the node is no longer in the plans")
	require.Zero(t, r.of("nhc", &plan.Node).due)
	r.failed("nhc", &plan.Node, &remediation.Outcome{Err: errors.New("denied")}, epoch)
	require.Equal(t, retryBase, r.of("nhc", &plan.Node).due.Sub(epoch), "the backoff starts anew")
	r.forget("nhc")
	require.Zero(t, r.of("nhc", &plan.Node).due)
	r.failed("nhc", &plan.Node, &remediation.Outcome{Err: errors.New("denied")}, epoch)
	require.Equal(t, retryBase, r.of("nhc", &plan.Node).due.Sub(epoch), "the backoff starts anew")
}
