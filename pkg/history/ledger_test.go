// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func TestUpdateManyNodes(t *testing.T) {
	t.Parallel()
	first, ended := (*Ledger)(nil).Update(slices.Values([]Observation{
		unhealthy(named("c")), unhealthy(named("a")), unhealthy(named("b"), with(reboot(6))), healthy(named("d")),
	}), at(7))

	require.Empty(t, ended)
	require.Equal(t, []string{"a", "b", "c"}, slices.Sorted(first.Nodes()))

	second, ended := first.Update(slices.Values([]Observation{healthy(named("c")), unhealthy(named("b"), with(reboot(6)))}), at(8))
	require.Equal(t, []v1alpha1.Episode{
		open(of("a"), endedAt(8, v1alpha1.OutcomeCancelled)),
		open(of("c"), endedAt(8, v1alpha1.OutcomeRecoveredWithoutRemediation)),
	}, ended)
	require.Equal(t, []string{"b"}, slices.Sorted(second.Nodes()))
	require.Equal(t, []string{"a 00:05 - 00:08", "b 00:05", "c 00:05 - 00:08"}, describe(second.List(nil)))
	require.Equal(t, []string{"a", "b", "c"}, slices.Sorted(first.Nodes()), "what a ledger says stays as it is")
	require.Equal(t, []string{"a 00:05", "b 00:05", "c 00:05"}, describe(first.List(nil)))

	third, ended := second.Update(slices.Values([]Observation{healthy(named("b")), unhealthy(named("a"), since(at(8.5)))}), at(9))
	require.Len(t, ended, 1)
	require.Equal(t, []string{"a 00:08", "a 00:05 - 00:08", "b 00:05 - 00:09", "c 00:05 - 00:08"}, describe(third.List(nil)))
	require.Equal(t, []string{"a 00:05 - 00:08", "b 00:05", "c 00:05 - 00:08"}, describe(second.List(nil)))
}

func TestEmptyLedger(t *testing.T) {
	t.Parallel()
	var none *Ledger
	require.Empty(t, slices.Sorted(none.Nodes()))
	require.Nil(t, none.Episode("node-1"))
	next, ended := none.Update(slices.Values[[]Observation](nil), epoch)
	require.Empty(t, ended)
	require.Empty(t, slices.Sorted(next.Nodes()))
	require.Nil(t, next.List(nil))
}

// TestUnwritten plays a write that fails: the next sync starts from the ledger of
// the last one that was written.
func TestUnwritten(t *testing.T) {
	t.Parallel()
	written := ledger(open())
	_, lost := written.Update(slices.Values([]Observation{healthy()}), at(8))
	require.Len(t, lost, 1)
	next, again := written.Update(slices.Values([]Observation{healthy()}), at(8))
	require.Equal(t, lost, again)
	require.Empty(t, slices.Sorted(next.Nodes()))
}

// TestHistoryIsNoNews plays syncs that only change the history, so that it is not
// written, and a restart after them: the CR still shows the change.
func TestHistoryIsNoNews(t *testing.T) {
	t.Parallel()
	sight := unhealthy(with(reboot(6)))
	first, _ := Recall(nil).Update(slices.Values([]Observation{sight}), at(6))
	status := &v1alpha1.NodeHealthCheckStatus{RemediationHistory: first.List(nil)}

	sight.CRs[0].Fenced = at(7)
	second, _ := first.Update(slices.Values([]Observation{sight}), at(8))
	require.NotEqual(t, first.List(nil), second.List(nil))
	restarted, _ := Recall(status).Update(slices.Values([]Observation{sight}), at(30))
	require.Equal(t, second.List(nil), restarted.List(nil))
}
