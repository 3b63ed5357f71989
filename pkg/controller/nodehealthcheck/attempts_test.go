// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestAttempts: what has failed for a node is tried again, with backoff, at least once a
// minute, and concerns nothing else (spec P1, P12).
func TestAttempts(t *testing.T) {
	t.Parallel()
	attempts := newAttempts()
	at := func(name string, state health.State) remediation.NodeResult {
		node := &remediation.Node{Name: name, Verdict: health.Verdict{State: state}}
		return remediation.NodeResult{Plan: &remediation.NodePlan{Node: node}}
	}
	a, b := at("a", health.Unhealthy), at("b", health.Unhealthy)
	all := []remediation.NodeResult{a, b}
	denied := &remediation.Outcome{Err: errors.New("denied")}
	require.Zero(t, attempts.of(a.Plan.Node).Due)
	require.Zero(t, attempts.recheck(all, epoch))

	now, last := epoch, time.Duration(0)
	for range 20 {
		attempts.failed(a.Plan.Node, denied, now)
		due := attempts.of(a.Plan.Node).Due
		delay := due.Sub(now)
		require.Greater(t, delay, time.Duration(0), "P1: retried")
		require.LessOrEqual(t, delay, time.Minute, "P12: for ever, at least once a minute")
		require.GreaterOrEqual(t, delay, last, "P1: with backoff")
		require.Equal(t, due, attempts.recheck(all, now), "P2: the sync wakes up for it")
		now, last = due, delay
	}
	require.Equal(t, time.Minute, last)
	require.Zero(t, attempts.of(b.Plan.Node).Due, "P1: affects that item only")
	require.Zero(t, attempts.of(at("a", health.Healthy).Plan.Node).Due, "P12: what failed for an unhealthy node does not hold up its recovery")
	deleted := at("a", health.Unhealthy)
	deleted.Plan.Node.Constraints.NodeDeleted = true
	require.Zero(t, attempts.of(deleted.Plan.Node).Due)
	remediated := at("a", health.Unhealthy)
	remediated.Plan.Node.Own = []*object.CR{{}}
	require.Zero(t, attempts.of(remediated.Plan.Node).Due, "P12: what failed without a CR says nothing about one, nor the reverse")
	replacing := at("a", health.Unhealthy)
	replacing.Plan.Node.Own = []*object.CR{{PermanentNodeDeletionExpected: corev1.ConditionTrue}}
	require.NotZero(t, attempts.of(replacing.Plan.Node).Due, "it is left alone")
	replacing.Plan.Node.Own[0].Succeeded = corev1.ConditionTrue
	require.Zero(t, attempts.of(replacing.Plan.Node).Due, "P12: what failed before says nothing about it")

	require.Zero(t, attempts.recheck(all, now), "P2: an attempt that is due now is made now")
	attempts.succeeded(a.Plan.Node)
	require.Zero(t, attempts.of(a.Plan.Node).Due, "P4: it goes with its cause")
	attempts.failed(a.Plan.Node, denied, now)
	require.Equal(t, 100*time.Millisecond, attempts.of(a.Plan.Node).Due.Sub(now), "the backoff starts anew")
	require.Zero(t, attempts.recheck(nil, now), "P4: the node is no longer in the plans")
	require.Zero(t, attempts.of(a.Plan.Node).Due)
}
