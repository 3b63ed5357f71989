// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

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
		want     map[string]budget.Result
	}{
		"it has begun":                         {outcomes{{Result: remediation.Requested}}, map[string]budget.Result{"node": budget.Begun}},
		"it is left to the next batch":         {outcomes{{Result: remediation.Deferred}}, map[string]budget.Result{}},
		"P5 the answer is lost":                {outcomes{{Result: remediation.Unknown, Err: failed}}, map[string]budget.Result{"node": budget.Uncertain}},
		"the lease could not be written":       {outcomes{{Result: remediation.Failed, Err: failed}}, map[string]budget.Result{"node": budget.Rejected}},
		"something else refused it":            {outcomes{{Result: remediation.Refused}}, map[string]budget.Result{"node": budget.Rejected}},
		"one of two has begun":                 {outcomes{{Result: remediation.Requested}, {Result: remediation.Unknown, Err: failed}}, map[string]budget.Result{"node": budget.Begun}},
		"the other one of two has begun":       {outcomes{{Result: remediation.Failed, Err: failed}, {Result: remediation.Requested}}, map[string]budget.Result{"node": budget.Begun}},
		"one of two may have begun":            {outcomes{{Result: remediation.Unknown, Err: failed}, {Result: remediation.Failed, Err: failed}}, map[string]budget.Result{"node": budget.Uncertain}},
		"one of two is left to the next batch": {outcomes{{Result: remediation.Refused}, {Result: remediation.Deferred}}, map[string]budget.Result{"node": budget.Rejected}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var results []machinehealth.Result
			for i := range tc.outcomes {
				plan := &machinehealth.Plan{Target: &machinehealth.Target{Machine: &machinehealth.Machine{Node: "node"}}}
				results = append(results, machinehealth.Result{Plan: plan, Outcome: &tc.outcomes[i]})
			}
			require.Equal(t, tc.want, endsOf(results))
		})
	}
}

// TestUnderwayRetained: of a MachineHealthCheck that is gone, only what has a CR is still underway.
func TestUnderwayRetained(t *testing.T) {
	t.Parallel()
	var u underway
	gone, other := cache.ObjectName{Namespace: "n", Name: "gone"}, cache.ObjectName{Namespace: "n", Name: "other"}
	at := time.Date(2026, time.January, 7, 12, 0, 0, 0, time.UTC)
	require.Empty(t, u.retain(gone, nil), "nothing was")
	u.set(gone, map[string]begun{"m1": {"node-1", at}, "m2": {"node-2", at}, "m3": {"node-3", at}})
	u.set(other, map[string]begun{"m1": {"node-4", at}})

	concerned := u.retain(gone, sets.New("m2"))
	slices.Sort(concerned)
	require.Equal(t, []string{"node-1", "node-3"}, concerned)
	require.False(t, u.of("node-1").Remediating)
	require.True(t, u.of("node-2").Remediating)
	require.True(t, u.of("node-4").Remediating, "of another MachineHealthCheck")
	require.Empty(t, u.retain(gone, sets.New("m2")))
}
