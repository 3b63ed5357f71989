// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/history"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

func TestLimitEntries(t *testing.T) {
	t.Parallel()
	remediated := []v1alpha1.Remediation{{}}
	entries := func(names ...string) []v1alpha1.UnhealthyNode {
		var all []v1alpha1.UnhealthyNode
		for _, name := range names {
			entry := v1alpha1.UnhealthyNode{Name: strings.TrimSuffix(name, "*")}
			if strings.HasSuffix(name, "*") {
				entry.Remediations = remediated
			}
			all = append(all, entry)
		}
		return all
	}
	tests := map[string]struct {
		limit int
		given []v1alpha1.UnhealthyNode
		want  []v1alpha1.UnhealthyNode
	}{
		"18.4 sorted by name":                      {limit: 9, given: entries("c", "a*", "b"), want: entries("a*", "b", "c")},
		"18.6 as many as there may be":             {limit: 3, given: entries("c", "a*", "b"), want: entries("a*", "b", "c")},
		"18.6 those with remediations come first":  {limit: 2, given: entries("a", "b", "d*", "c*"), want: entries("c*", "d*")},
		"18.6 and are sorted by name all the same": {limit: 3, given: entries("z*", "a", "b", "y*"), want: entries("a", "y*", "z*")},
		"18.6 too many with remediations":          {limit: 1, given: entries("b*", "a*", "c"), want: entries("a*")},
		"18.6 none":                                {limit: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, LimitEntries(tc.given, tc.limit))
		})
	}
}

// Two remediations are not more than one: only the name ranks.
func TestLimitEntriesIsStable(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var given []v1alpha1.UnhealthyNode
	for i := range 100 {
		given = append(given, v1alpha1.UnhealthyNode{Name: fmt.Sprintf("n-%03d", i), Remediations: make([]v1alpha1.Remediation, i%3)})
	}
	want := LimitEntries(append([]v1alpha1.UnhealthyNode(nil), given...), 50)
	for range 20 {
		shuffled := append([]v1alpha1.UnhealthyNode(nil), given...)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(t, want, LimitEntries(shuffled, 50), "P3: whatever the order, the same are listed")
	}
}

// TestStatusFitsAnObject has as many nodes as status may list, under remediation or
// not, with names of all lengths. The list is atomic, so managedFields name no entry.
func TestStatusFitsAnObject(t *testing.T) {
	t.Parallel()
	const nodes, maxObjectSize = 5000, 1 << 20
	cloud := func(i int) string {
		return fmt.Sprintf("ip-10-120-%03d-%03d.eu-central-1.compute.internal", i/250, i%250)
	}
	long := func(i int) string { return fmt.Sprintf("%0253d", i) }
	short := func(i int) string { return fmt.Sprintf("n%d", i) }
	for name, tc := range map[string]struct {
		node       func(int) string
		remediated bool
		listed     int // At least.
	}{
		"short names, waiting":     {node: short, listed: nodes},
		"cloud names, waiting":     {node: cloud, listed: nodes},
		"long names, waiting":      {node: long, listed: 2700},
		"short names, remediation": {node: short, remediated: true, listed: 2400},
		"cloud names, remediation": {node: cloud, remediated: true, listed: 1900},
		"long names, remediation":  {node: long, remediated: true, listed: 900},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := testCheck()
			check.Spec.RemediationHistoryLimit = new(int32(100))
			in := &Input{Check: check, Policy: &remediation.Policy{}, Listed: make([]*v1alpha1.UnhealthyNode, nodes), Now: epoch}
			in.Summary.Observed, in.Before.Ledger = nodes, history.Recall(&check.Status)
			for i := range nodes {
				plan := &remediation.NodePlan{Node: testNode(tc.node(i)), Reason: v1alpha1.DecidedGateClosed, Refused: true}
				if tc.remediated {
					cr := testCR(plan.Node.Name, fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
					plan.Node.Own, plan.Running, plan.Reason, plan.Refused = []*object.CR{cr}, cr, v1alpha1.DecidedStepRunning, false
				}
				in.Results = append(in.Results, remediation.NodeResult{Plan: plan, Outcome: &remediation.Outcome{}})
			}
			r := New(in)
			require.NotEmpty(t, r.Status.RemediationHistory)
			encoded, err := json.Marshal(r.Status)
			require.NoError(t, err)
			require.LessOrEqual(t, len(encoded), maxObjectSize-20_000, "18.6: %d entries; the rest is for the spec", len(r.Status.UnhealthyNodes))
			require.GreaterOrEqual(t, len(r.Status.UnhealthyNodes), tc.listed, "18.6: and no less than fits, %d bytes", len(encoded))
			require.EqualValues(t, nodes, *r.Status.ObservedNodes, "18.6: counts are exact")
			for i := range r.Entries {
				require.NotEmpty(t, r.Entries[i].Decision.Message, "23b.5; what is left out of status is not forgotten")
			}
		})
	}
}
