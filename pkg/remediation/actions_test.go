// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestFailureOfALastLook: a live read that fails has the reason of what it comes before, so that no
// condition speaks of a CR where none is due (spec M12.1).
func TestFailureOfALastLook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		action Action
		want   v1alpha1.DecisionReason
	}{
		"13.3 a CR":           {Create{}, v1alpha1.DecidedCreateFailed},
		"M10.2 a deletion":    {DeleteMachine{}, v1alpha1.DecidedDeleteFailed},
		"M11.1 an annotation": {RequestExternal{}, v1alpha1.DecidedUpdateFailed},
		"13.6 the last step":  {MarkTimedOut{EndsStep: true}, v1alpha1.DecidedUpdateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := NodePlan{Actions: []Action{WriteLease{}, Confirm{}, tc.action}}
			require.Equal(t, tc.want, plan.FailureReason(Confirm{}))
		})
	}
}
