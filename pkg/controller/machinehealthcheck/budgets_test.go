// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestMayHaveBegun tells what a budget and the control plane slot have to count from what certainly was not tried.
func TestMayHaveBegun(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machinehealthchecks"}, "west", errors.New("it has changed"))
	for name, tc := range map[string]struct {
		outcome remediation.Outcome
		want    bool
	}{
		"nothing failed":                 {remediation.Outcome{Result: remediation.Deferred}, false},
		"P5 the answer is lost":          {remediation.Outcome{Result: remediation.Unknown}, true},
		"P5 the request failed":          {remediation.Outcome{Result: remediation.Failed, Err: errors.New("timeout")}, true},
		"the request was forbidden":      {remediation.Outcome{Result: remediation.Failed, Err: apierrors.NewForbidden(schema.GroupResource{}, "m", nil)}, false},
		"B3.2 it could not be announced": {remediation.Outcome{Result: remediation.Failed, Err: fmt.Errorf("%w: %w", errNotAnnounced, conflict)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, mayHaveBegun(&tc.outcome))
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
