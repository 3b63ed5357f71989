// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestAttemptsOfNodes: what has failed for a node concerns nothing else (spec P1, P12).
func TestAttemptsOfNodes(t *testing.T) {
	t.Parallel()
	attempts := newAttempts()
	at := func(name string, state health.State) *remediation.Node {
		return &remediation.Node{Name: name, Verdict: health.Verdict{State: state}}
	}
	a, b := at("a", health.Unhealthy), at("b", health.Unhealthy)
	all := []remediation.NodeResult{{Plan: &remediation.NodePlan{Node: a}}, {Plan: &remediation.NodePlan{Node: b}}}
	require.Zero(t, attempts.of(a).Due)
	require.Zero(t, attempts.recheck(all, epoch))
	attempts.failed(a, &remediation.Outcome{Err: errors.New("denied")}, epoch)
	require.Equal(t, attempts.of(a).Due, attempts.recheck(all, epoch), "P2: the sync wakes up for it")
	require.Zero(t, attempts.of(b).Due, "P1: affects that item only")
	require.Zero(t, attempts.of(at("a", health.Healthy)).Due, "P12: what failed for an unhealthy node does not hold up its recovery")
	deleted := at("a", health.Unhealthy)
	deleted.Constraints.NodeDeleted = true
	require.Zero(t, attempts.of(deleted).Due)
	remediated := at("a", health.Unhealthy)
	remediated.Own = []*object.CR{{}}
	require.Zero(t, attempts.of(remediated).Due, "P12: what failed without a CR says nothing about one, nor the reverse")
	replacing := at("a", health.Unhealthy)
	replacing.Own = []*object.CR{{PermanentNodeDeletionExpected: corev1.ConditionTrue}}
	require.NotZero(t, attempts.of(replacing).Due, "it is left alone")
	replacing.Own[0].Succeeded = corev1.ConditionTrue
	require.Zero(t, attempts.of(replacing).Due, "P12: what failed before says nothing about it")
	attempts.succeeded(a)
	require.Zero(t, attempts.of(a).Due, "P4: it goes with its cause")
	attempts.failed(a, &remediation.Outcome{Err: errors.New("denied")}, epoch)
	require.Zero(t, attempts.recheck(all[1:], epoch), "P4: the node is no longer in the plans")
	require.Zero(t, attempts.of(a).Due)
}
