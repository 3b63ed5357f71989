// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReservation: of several attempts, one at a time is for a control plane node (spec
// 12.2, P6, P9).
func TestReservation(t *testing.T) {
	t.Parallel()
	var reservation Reservation
	require.True(t, reservation.TryAcquire(Member{Node: "cp"}, epoch))
	require.False(t, reservation.TryAcquire(Member{Node: "other"}, epoch), "P6: one at a time")
	require.True(t, reservation.TryAcquire(Member{Node: "cp"}, epoch), "11.5: the lease decides who remediates the node")
	reservation.Release(false, epoch)
	require.False(t, reservation.TryAcquire(Member{Node: "other"}, epoch), "12.2: the other attempt is under way")
	reservation.Release(false, epoch)
	require.True(t, reservation.TryAcquire(Member{Node: "other"}, epoch), "P12: its outcome is known")
	reservation.Release(true, epoch)
	require.False(t, reservation.TryAcquire(Member{Node: "cp"}, epoch.Add(unknownReservation-1)), "P5: perhaps a CR was created")
	require.True(t, reservation.TryAcquire(Member{Node: "other"}, epoch), "it may be tried again")
	reservation.Release(false, epoch)
	require.True(t, reservation.TryAcquire(Member{Node: "cp"}, epoch.Add(unknownReservation)), "P12: by now, a live list would show it")
	reservation.Release(false, epoch)
	require.True(t, reservation.TryAcquire(Member{Node: "other"}, epoch), "what was unknown before is over")
}
