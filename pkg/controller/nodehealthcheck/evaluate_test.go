// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestNextAttempt: the plan of a node waits after a failed write (spec P1). It is the verdict
// that tells which attempt that is (spec P12).
func TestNextAttempt(t *testing.T) {
	t.Parallel()
	s := testSnapshot(testCheck(failsReady), testNode("a", conditions(testCondition("Ready", "False", epoch))), testNode("b"))
	now := epoch.Add(time.Minute)
	evaluate(s, now)
	s.state.attempts.Failed(attemptOf(&s.nodes[0]), &remediation.Outcome{Err: errors.New("denied"), Reason: v1alpha1.DecidedCreateFailed}, now)
	failed := s.state.attempts.Of(attemptOf(&s.nodes[0]))
	evaluate(s, now)
	require.NotZero(t, failed.Due)
	require.Equal(t, failed.Due, s.nodes[0].RetryAt)
	require.Equal(t, "denied", s.nodes[0].LastFailure)
	require.Equal(t, v1alpha1.DecidedCreateFailed, s.nodes[0].LastFailed)
	require.Zero(t, s.nodes[1].RetryAt)
	evaluate(s, epoch)
	require.Zero(t, s.nodes[0].RetryAt, "P12: nothing has failed for a node that is only soon unhealthy")
}
