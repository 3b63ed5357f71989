// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestActionTimesOut: what never answers does not hold a worker for ever (P1, P12).
func TestActionTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newTestExecutor()
		th.Executor.Confirm = func(ctx context.Context, _ *remediation.Node) (Confirmation, error) {
			<-ctx.Done() // As a request does that is not answered.
			return Confirmation{}, ctx.Err()
		}
		begin := time.Now()
		outcome := th.run(t.Context(), planToCreate())
		require.ErrorIs(t, outcome.Err, context.DeadlineExceeded)
		require.Nil(t, outcome.NewCR())
		require.NotEqual(t, remediation.Unknown, outcome.Result, "nothing was sent")
		require.Equal(t, actionTimeout, time.Since(begin))
	})
}
