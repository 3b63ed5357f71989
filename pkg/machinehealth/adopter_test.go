// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdopter: of several MachineHealthChecks with a template, one goes on with what another controller has begun
// (spec M12.4).
func TestAdopter(t *testing.T) {
	t.Parallel()
	type candidate = Candidate
	for name, tc := range map[string]struct {
		candidates []candidate
		want       string
	}{
		"M12.4 none":                         {nil, ""},
		"M12.4 none selects it":              {[]candidate{{Name: "a"}, {Name: "b"}}, ""},
		"M12.4 the one that selects it":      {[]candidate{{Name: "a"}, {Name: "b", Selects: true}, {Name: "c"}}, "b"},
		"M12.4 the first that selects it":    {[]candidate{{Name: "a"}, {Name: "b", Selects: true}, {Name: "c", Selects: true}}, "b"},
		"M12.4 the one that holds the lease": {[]candidate{{Name: "a", Selects: true}, {Name: "b"}, {Name: "c", HoldsLease: true}}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Adopter(tc.candidates))
			slices.Reverse(tc.candidates)
			require.Equal(t, tc.want, Adopter(tc.candidates), "whatever their order")
		})
	}
}
