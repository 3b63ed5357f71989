// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestUsed: the version that a process has logged counts, and no other that it may have seen.
func TestUsed(t *testing.T) {
	t.Parallel()
	s := newFixture()
	s.node(past, failedNode("n"))
	s.nhc(past, healthCheck())
	before := s.rv
	s.nhc(at(98), healthCheck(func(nhc *v1alpha1.NodeHealthCheck) { nhc.Spec.PauseRequests = []string{"maintenance"} }))
	for name, tc := range map[string]struct {
		logged *LoggedAction
		want   []string
	}{
		"not known":     {nil, nil},
		"by the former": {&LoggedAction{Version: before}, nil},
		"by the pause":  {&LoggedAction{Version: s.rv}, []string{"10.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := window{nhc: "nhc", node: "n", known: at(97), nodeKnown: at(99), rv: s.rv, at: at(100), first: true, logged: tc.logged}
			require.Equal(t, tc.want, broke(s.constraints(w)))
		})
	}
}

// TestLoggedAction: it is the last one before the request, of the same process and health check.
func TestLoggedAction(t *testing.T) {
	t.Parallel()
	j := NewJudge(Config{})
	j.SetLoggedActions([]LoggedAction{
		{Time: at(4), Client: "a", Check: "nhc", Node: "n", Version: 4},
		{Time: at(1), Client: "a", Check: "nhc", Node: "n", Version: 1},
		{Time: at(2), Client: "b", Check: "nhc", Node: "n", Version: 2},
		{Time: at(3), Client: "a", Check: "other", Node: "n", Version: 3},
		{Time: at(3), Client: "a", Check: "machines/mhc", Node: "Machine machines/m", Version: 5},
	})
	by := &Request{Time: at(3), UserAgent: "a/nhc-controller"}
	require.EqualValues(t, 1, j.loggedAction(by, "nhc", "n").Version)
	require.Nil(t, j.loggedAction(by, "nhc", "m"))
	require.EqualValues(t, 5, j.loggedMachineAction(by, &Machine{Namespace: "machines", Name: "m"}).Version)
	require.Nil(t, j.loggedMachineAction(by, &Machine{Namespace: "machines", Name: "m", Node: "n"}))
	require.Equal(t, 2, j.figures.Versioned)
}
