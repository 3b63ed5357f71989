// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMaxUnhealthyDecodes: an integer that does not fit hides no other MachineHealthCheck.
func TestMaxUnhealthyDecodes(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]string{
		`3`: "3", `"40%"`: "40%", `-1`: "-1", `3000000000`: "3000000000", `-3000000000`: "-3000000000", `"x"`: "x",
	} {
		var list MachineHealthCheckList
		require.NoError(t, json.Unmarshal([]byte(`{"items":[{"spec":{"maxUnhealthy":`+stored+`}},{"metadata":{"name":"next"}}]}`), &list), "M3.4 %s", stored)
		require.Equal(t, "next", list.Items[1].Name)
		encoded, err := json.Marshal(list.Items[0].Spec.MaxUnhealthy)
		require.NoError(t, err)
		require.Contains(t, string(encoded), want)
	}
}
