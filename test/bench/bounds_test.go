// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/localkube"
	"github.com/nhc-controller/nhc-controller/test/remediator"
)

func TestSamplesOf(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	request := func(verb, node string, seconds int, code int32) localkube.Request {
		return localkube.Request{Verb: verb, Resource: remediator.Resource.Resource, Name: node, Time: at(seconds), Code: code}
	}
	requests := []localkube.Request{
		request("create", "a", 1, 201), request("delete", "b", 2, 500), request("delete", "b", 3, 200), request("delete", "b", 9, 200), request("delete", "c", 30, 200),
		{Verb: "delete", Resource: "leases", Name: "a", Time: at(1), Code: 200},
	}
	deletions := requestsForCRs(requests, "delete")
	require.Len(t, deletions, 2)
	taken := []sample{{node: "b", sent: at(1), took: time.Second}, {node: "c", sent: at(20), took: 2 * time.Second}}

	got, err := samplesOf(taken, at(10), deletions)
	require.NoError(t, err)
	require.Equal(t, []float64{1000}, got.Times.Samples, "the second one is later than the storm")
	require.Equal(t, []float64{1000}, got.Writes.Samples)

	got, err = samplesOf(taken, at(25), deletions)
	require.NoError(t, err)
	require.InDelta(t, 8000, got.Times.Max, 0)

	_, err = samplesOf([]sample{{node: "a", sent: at(1)}}, at(10), deletions)
	require.ErrorContains(t, err, "node a", "its CR was never deleted")
}

func TestBoundsWithoutSamples(t *testing.T) {
	t.Parallel()
	rows := func(r *boundsOutcome) map[string]bool {
		met := map[string]bool{}
		for _, g := range r.goals() {
			kept, bounded := g.bounded()
			require.NotContains(t, met, g.What)
			if bounded {
				met[g.What] = kept
			}
		}
		return met
	}
	few := rows(&boundsOutcome{})
	require.False(t, few["leader lease is released"])
	one := samples{Times: distributionOf([]time.Duration{3 * time.Second})}
	many := rows(&boundsOutcome{Recoveries: one, Failures: one, LeaseTimes: one.Times, AuditMean: 3, Termination: termination{Exit: 6}})
	require.Len(t, many, len(few)+2, "a storm that was too short for samples meets no bound with them")
	for what, met := range many {
		require.False(t, met, what)
	}
}
