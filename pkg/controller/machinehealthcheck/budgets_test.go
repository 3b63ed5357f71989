// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/budget"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestEndsOf tells what a budget has to count from what certainly was not tried (spec B3.2).
func TestEndsOf(t *testing.T) {
	t.Parallel()
	type outcomes = []remediation.Outcome
	failed := errors.New("no answer")
	for name, tc := range map[string]struct {
		outcomes outcomes
		want     map[string]budget.Usage
	}{
		"it has begun":                         {outcomes{{Result: remediation.Requested}}, map[string]budget.Usage{"node": budget.Begun}},
		"it is left to the next batch":         {outcomes{{Result: remediation.Deferred}}, map[string]budget.Usage{}},
		"P5 the answer is lost":                {outcomes{{Result: remediation.Unknown, Err: failed}}, map[string]budget.Usage{"node": budget.Uncertain}},
		"the lease could not be written":       {outcomes{{Result: remediation.Failed, Err: failed}}, map[string]budget.Usage{"node": budget.Rejected}},
		"something else refused it":            {outcomes{{Result: remediation.Refused}}, map[string]budget.Usage{"node": budget.Rejected}},
		"one of two has begun":                 {outcomes{{Result: remediation.Requested}, {Result: remediation.Unknown, Err: failed}}, map[string]budget.Usage{"node": budget.Begun}},
		"the other one of two has begun":       {outcomes{{Result: remediation.Failed, Err: failed}, {Result: remediation.Requested}}, map[string]budget.Usage{"node": budget.Begun}},
		"one of two may have begun":            {outcomes{{Result: remediation.Unknown, Err: failed}, {Result: remediation.Failed, Err: failed}}, map[string]budget.Usage{"node": budget.Uncertain}},
		"one of two is left to the next batch": {outcomes{{Result: remediation.Refused}, {Result: remediation.Deferred}}, map[string]budget.Usage{"node": budget.Rejected}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var results []machinehealth.TargetResult
			for i := range tc.outcomes {
				plan := &machinehealth.Plan{Target: &machinehealth.Target{Observed: machinehealth.Observed{Machine: &machinehealth.Machine{Node: "node"}}}}
				results = append(results, machinehealth.TargetResult{Plan: plan, Outcome: &tc.outcomes[i]})
			}
			require.Equal(t, tc.want, usagesOf(results))
		})
	}
}
