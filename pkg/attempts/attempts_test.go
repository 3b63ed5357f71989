// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestAttempts: a failed write is tried again, with backoff, at least once a minute, and does not
// affect others (spec P1, P12).
func TestAttempts(t *testing.T) {
	t.Parallel()
	all := sets.New("a", "b")
	attempts := New[string]()
	denied := &remediation.Outcome{Err: errors.New("denied"), Reason: v1alpha1.DecidedCreateFailed}
	require.True(t, attempts.None())
	require.Zero(t, attempts.Of("a"))
	require.Zero(t, attempts.Recheck(all, epoch))

	now, last := epoch, time.Duration(0)
	for range 20 {
		attempts.Failed("a", denied, now)
		next := attempts.Of("a")
		delay := next.Due.Sub(now)
		require.Greater(t, delay, time.Duration(0), "P1: retried")
		require.LessOrEqual(t, delay, time.Minute, "P12: for ever, at least once a minute")
		require.GreaterOrEqual(t, delay, last, "P1: with backoff")
		require.Equal(t, next.Due, attempts.Recheck(all, now), "P2: the sync wakes up for it")
		require.Equal(t, Attempt{Due: next.Due, Failure: "denied", Reason: v1alpha1.DecidedCreateFailed}, next)
		now, last = next.Due, delay
	}
	require.Equal(t, time.Minute, last)
	require.False(t, attempts.None())
	require.Zero(t, attempts.Of("b"), "P1: affects that item only")

	require.Zero(t, attempts.Recheck(all, now), "P2: an attempt that is due now is made now")
	attempts.Succeeded("a")
	require.Zero(t, attempts.Of("a"), "P4: it goes with its cause")
	attempts.Failed("a", denied, now)
	require.Equal(t, 100*time.Millisecond, attempts.Of("a").Due.Sub(now), "the backoff starts anew")
	attempts.Failed("b", denied, now.Add(time.Second))
	require.Equal(t, now.Add(100*time.Millisecond), attempts.Recheck(all, now), "P2: the earliest")
	require.Zero(t, attempts.Recheck(nil, now), "P4: nothing is planned for them any more")
	require.True(t, attempts.None())
}
