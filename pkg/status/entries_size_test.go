// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestEntriesLeaveOut: what is left out of all entries, one after the other, before an
// entry is left out.
func TestEntriesLeaveOut(t *testing.T) {
	t.Parallel()
	detected := metav1.NewTime(epoch)
	many := func(n, name, message int) []v1alpha1.UnhealthyNode {
		all := make([]v1alpha1.UnhealthyNode, n)
		for i := range all {
			all[i] = v1alpha1.UnhealthyNode{
				Name:    strings.Repeat("n", name-4) + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26)),
				Trigger: &v1alpha1.Trigger{Type: "Ready", Status: "Unknown", Reason: "NodeStatusUnknown"}, Detected: &detected,
				Decision: &v1alpha1.Decision{Type: "Held", Reason: "Paused", Message: strings.Repeat("m", message)},
			}
		}
		return all
	}
	tests := map[string]struct {
		given                               []v1alpha1.UnhealthyNode
		message, decision, trigger, trimmed bool
	}{
		"nothing":                    {given: many(1200, 63, 300), message: true, decision: true, trigger: true},
		"the messages":               {given: many(2300, 63, 300), decision: true, trigger: true},
		"and what began it":          {given: many(4500, 63, 300), decision: true},
		"and the decisions":          {given: many(8000, 63, 300)},
		"and then nodes":             {given: many(11_000, 63, 300), trimmed: true},
		"what there is not, as well": {given: make([]v1alpha1.UnhealthyNode, 70_000), trimmed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := json.Marshal(tc.given)
			require.NoError(t, err)
			entries := LimitEntries(tc.given, 100_000)
			require.Equal(t, tc.trimmed, len(entries) < len(tc.given))
			require.Greater(t, entriesSize(entries), maxEntriesSize*7/10, "18.6: no more than that")
			require.LessOrEqual(t, entriesSize(entries), maxEntriesSize, "18.6")
			if tc.trimmed {
				require.Greater(t, entriesSize(entries), maxEntriesSize-1000, "18.6: as many as fit")
			}
			for i := range entries {
				require.Equal(t, tc.decision, entries[i].Decision != nil)
				require.Equal(t, tc.message, entries[i].Decision != nil && entries[i].Decision.Message != "")
				require.Equal(t, tc.trigger, entries[i].Trigger != nil && entries[i].Detected != nil)
				require.Equal(t, tc.trigger, entries[i].Trigger != nil || entries[i].Detected != nil)
				if tc.decision {
					require.Equal(t, v1alpha1.DecidedPaused, entries[i].Decision.Reason)
				}
			}
			after, err := json.Marshal(tc.given)
			require.NoError(t, err)
			require.Equal(t, string(before), string(after), "the entries of all nodes stay as they are")
		})
	}
}

// TestEntriesThatJustFit: nothing is left out as long as there is room.
func TestEntriesThatJustFit(t *testing.T) {
	t.Parallel()
	given := func(message int) []v1alpha1.UnhealthyNode {
		all := make([]v1alpha1.UnhealthyNode, 4999)
		for i := range all {
			all[i].Name = fmt.Sprintf("%0126d", i)
		}
		all[0].Decision = &v1alpha1.Decision{Type: "Held", Reason: "Paused", Message: strings.Repeat("m", message)}
		return all
	}
	room := maxEntriesSize - entriesSize(given(1)) + 1
	require.NotEmpty(t, LimitEntries(given(room), 5000)[0].Decision.Message, "18.6")
	require.Empty(t, LimitEntries(given(room+1), 5000)[0].Decision.Message, "18.6")
}

// entriesSize is how many bytes a list takes.
func entriesSize(entries []v1alpha1.UnhealthyNode) int {
	encoded, err := json.Marshal(entries)
	if err != nil {
		panic(err)
	}
	return len(encoded)
}
