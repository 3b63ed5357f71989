// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// manyNodes are more nodes than status can list. Some have a CR.
func manyNodes(nodes, remediated int) []part {
	var parts []part
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		if i >= nodes-remediated {
			parts = append(parts, sick(name, own(testCR(name, name+"-cr"))))
		} else {
			parts = append(parts, sick(name))
		}
	}
	return parts
}

func TestStatusOfTooManyNodes(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	status := s.result(manyNodes(5100, 200)...).Status
	require.Len(t, status.UnhealthyNodes, 5000, "18.6 23")
	require.EqualValues(t, 5100, *status.ObservedNodes, "18.6: counts are not affected")
	require.EqualValues(t, 200, *status.RemediatingNodes, "18.6")
	require.Equal(t, "NHC is remediating 200 nodes, 100 more not listed", status.Reason, "18.6")
	require.EqualValues(t, 5100, *status.UnhealthyNodeCount, "18.6 23: the true number")
	listed := 0
	for _, entry := range status.UnhealthyNodes {
		if len(entry.Remediations) > 0 {
			listed++
		}
	}
	require.Equal(t, 200, listed, "18.6: nodes with remediations come first")
}

// TestEventsAreNotRepeatedForTooManyNodes: what status cannot hold is no news at each
// sync.
func TestEventsAreNotRepeatedForTooManyNodes(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.sync(manyNodes(5010, 5010)...)
	require.Empty(t, s.sync(manyNodes(5010, 5010)...), "19.1 P3: transitions, never a sync")
	require.Empty(t, s.sync(manyNodes(5010, 5010)...), "19.1 P3")
	require.Equal(t, map[string]float64{"/workers/RebootRemediation": 5010}, s.values(t, "nhc_remediations_started_total"), "20.2 18.6")
}

// TestStatusOfTooManyRemediations has a node with more own CRs than an entry may
// list: a status that is refused would be one for no node at all.
func TestStatusOfTooManyRemediations(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	many := sick("n")
	for i := range 40 {
		many.plan.Node.Own = append(many.plan.Node.Own, testCR("n", fmt.Sprint(i)))
	}
	status := s.result(many, sick("m")).Status
	require.Len(t, status.UnhealthyNodes, 2)
	require.Len(t, status.UnhealthyNodes[1].Remediations, 32, "23 P1")
}
