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

// TestFailureReason: a node waits for the actions without which its remediation does not go on.
func TestFailureReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan   NodePlan
		action Action
		want   v1alpha1.DecisionReason
	}{
		"13.3 a CR":                            {action: Create{}, want: v1alpha1.DecidedCreateFailed},
		"16.1 the end of a CR":                 {action: Delete{}, want: v1alpha1.DecidedDeleteFailed},
		"M10.2 the deletion of a Machine":      {action: DeleteMachine{}, want: v1alpha1.DecidedDeleteFailed},
		"M11.1 an external remediation":        {action: RequestExternal{}, want: v1alpha1.DecidedUpdateFailed},
		"13.6 the end of a step":               {action: MarkTimedOut{EndsStep: true}, want: v1alpha1.DecidedUpdateFailed},
		"13.8 a mark on a CR that goes anyway": {action: MarkTimedOut{}},
		"14.2 a lease before a CR":             {plan: NodePlan{Actions: []Action{WriteLease{}, Create{}}}, action: WriteLease{}, want: v1alpha1.DecidedUpdateFailed},
		"13.6 a lease after the last step":     {plan: NodePlan{Exhausted: true}, action: WriteLease{}, want: v1alpha1.DecidedUpdateFailed},
		"14.5 a lease that is renewed":         {action: WriteLease{}},
		"14.9 a lease that is released":        {action: ReleaseLease{}},
		"16.6 a confirmation":                  {action: RemoveConfirmation{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.plan.FailureReason(tc.action))
		})
	}
}
