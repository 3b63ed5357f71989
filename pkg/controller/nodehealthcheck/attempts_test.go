// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/attempts"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestAttemptsOfNodes: a failure for a node does not affect others (spec P1, P12).
func TestAttemptsOfNodes(t *testing.T) {
	t.Parallel()
	state := &nhcState{attempts: attempts.New[attemptKey]()}
	attempts := &state.attempts
	at := func(name string, state health.State) *remediation.Node {
		return &remediation.Node{Name: name, Verdict: health.Verdict{State: state}}
	}
	a, b := at("a", health.Unhealthy), at("b", health.Unhealthy)
	all := []remediation.NodeResult{{Plan: &remediation.NodePlan{Node: a}}, {Plan: &remediation.NodePlan{Node: b}}}
	next := func(results []remediation.NodeResult) time.Time {
		return (&syncResult{snapshot: &snapshot{state: state}, results: results, now: epoch}).nextAttempt()
	}
	require.Zero(t, attempts.Of(attemptOf(a)).Due)
	require.Zero(t, next(all))
	attempts.Failed(attemptOf(a), &remediation.Outcome{Err: errors.New("denied")}, epoch)
	require.Equal(t, attempts.Of(attemptOf(a)).Due, next(all), "P2: the sync wakes up for it")
	require.Zero(t, attempts.Of(attemptOf(b)).Due, "P1: affects that item only")
	require.Zero(t, attempts.Of(attemptOf(at("a", health.Healthy))).Due, "P12: what failed for an unhealthy node does not hold up its recovery")
	deleted := at("a", health.Unhealthy)
	deleted.Constraints.NodeDeleted = true
	require.Zero(t, attempts.Of(attemptOf(deleted)).Due)
	remediated := at("a", health.Unhealthy)
	remediated.Own = []*object.CR{{}}
	require.Zero(t, attempts.Of(attemptOf(remediated)).Due, "P12: what failed without a CR says nothing about one, nor the reverse")
	replacing := at("a", health.Unhealthy)
	replacing.Own = []*object.CR{{PermanentNodeDeletionExpected: corev1.ConditionTrue}}
	require.NotZero(t, attempts.Of(attemptOf(replacing)).Due, "it is left alone")
	replacing.Own[0].Succeeded = corev1.ConditionTrue
	require.Zero(t, attempts.Of(attemptOf(replacing)).Due, "P12: what failed before says nothing about it")
	attempts.Succeeded(attemptOf(a))
	require.Zero(t, attempts.Of(attemptOf(a)).Due, "P4: it goes with its cause")
	attempts.Failed(attemptOf(a), &remediation.Outcome{Err: errors.New("denied")}, epoch)
	require.Zero(t, next(all[1:]), "P4: the node is no longer in the plans")
	require.Zero(t, attempts.Of(attemptOf(a)).Due)
}
