// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// TestLateOutcome: a CR that was created by an earlier batch is new only as long as no cache shows it (spec 8.4).
func TestLateOutcome(t *testing.T) {
	t.Parallel()
	cr, other := objecttest.CR("cr"), objecttest.CR("other")
	created := func() *Outcome { return &Outcome{Result: Created, CR: cr} }
	require.Equal(t, cr, created().Since([]*object.CR{other}).NewCR())
	require.Nil(t, created().Since([]*object.CR{other, cr}).NewCR())
	blocked := &Outcome{Result: Blocked, CR: cr}
	require.Equal(t, cr, blocked.Since([]*object.CR{cr}).Blocker())
	for result, answered := range map[Result]bool{"": true, Created: true, Unknown: true, Deferred: false, Unanswered: false} {
		outcome := Outcome{Result: result}
		require.Equal(t, answered, outcome.Answered(), result)
		require.Equal(t, result == Unknown || result == Unanswered, outcome.Uncertain(), result)
	}
}
