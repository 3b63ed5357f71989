// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
)

// FuzzObservation: whatever times a kubelet and a remediator write, the episode that
// is made of them can be stored and read again. The API server itself sets the times
// of the creation of Nodes and CRs.
func FuzzObservation(f *testing.F) {
	for _, seconds := range []int64{0, 1, -1, 62135596800, -62135596800, -62135596801, -62167219200, -62167269600, 253402300799, 253402300800, 1 << 40, -1 << 40} {
		for state := range uint8(4) {
			f.Add(seconds, seconds, int16(0), int16(0), state)
			f.Add(seconds, int64(0), int16(-10), int16(10), state)
			f.Add(int64(0), seconds, int16(10), int16(-10), state)
		}
	}
	f.Fuzz(func(t *testing.T, since, fenced int64, created, started int16, state uint8) {
		remediation := v1alpha1.Remediation{
			Resource: corev1.ObjectReference{Kind: "RebootRemediation", Name: "n", UID: "u"},
			Started:  metav1.NewTime(at(float64(started))),
		}
		seen := []Observation{{
			Node: "n", Selected: true, State: health.Unhealthy, Created: at(float64(created)),
			Since: time.Unix(since, 0), HealthySince: time.Unix(fenced, 0), CRs: []CR{{Remediation: remediation, Fenced: time.Unix(fenced, 0)}},
		}}
		ledger, ended := (&Ledger{}).Update(slices.Values(seen), at(0))
		requireStorable(t, ended)
		requireStorable(t, ledger.List(nil))
		seen[0].State = []health.State{health.Healthy, health.SoonUnhealthy, health.Unhealthy}[state%3]
		seen[0].CRs[0].Gone, seen[0].NodeDeleted = true, state >= 3
		ledger, ended = ledger.Update(slices.Values(seen), at(1))
		requireSound(t, ended)
		requireStorable(t, ended)
		requireStorable(t, ledger.List(nil))
		_, ended = ledger.Update(slices.Values[[]Observation](nil), at(2))
		requireStorable(t, ended)
	})
}

func requireStorable(t *testing.T, episodes []v1alpha1.Episode) {
	t.Helper()
	stored, err := json.Marshal(episodes)
	require.NoError(t, err)
	var read []v1alpha1.Episode
	require.NoError(t, json.Unmarshal(stored, &read), string(stored))
	require.Len(t, read, len(episodes))
	for i := range read {
		require.True(t, read[i].Detected.Equal(&episodes[i].Detected), string(stored))
		require.True(t, read[i].Fenced.Equal(episodes[i].Fenced), string(stored))
		require.True(t, read[i].Finished.Equal(episodes[i].Finished), string(stored))
		require.True(t, read[i].Released.Equal(episodes[i].Released), string(stored))
		requireOrdered(t, episodes[i])
	}
}
