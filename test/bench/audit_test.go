// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/test/deploy"
	"github.com/nhc-controller/nhc-controller/test/localkube"
)

func TestBreakdown(t *testing.T) {
	t.Parallel()
	counts := breakdown([]localkube.Request{
		{Verb: "create", Resource: "events"},
		{Verb: "update", Resource: "nodehealthchecks", Subresource: "status", Code: 409},
		{Verb: "create", Resource: "events"},
		{Verb: "update", Resource: "nodehealthchecks", Subresource: "status", Code: 200},
		{Verb: "get", Resource: "nodes", Code: 200},
		{Verb: "get", URI: "/apis", Code: 200},
		{Verb: "create", Resource: "events"},
	}, 2)
	require.Equal(t, requestCounts{
		{kindOfRequest: kindOfRequest{"create", "events"}, Count: 3, PerNode: 1.5},
		{kindOfRequest: kindOfRequest{"update", "nodehealthchecks/status"}, Count: 2, PerNode: 1, Failed: 1},
		{kindOfRequest: kindOfRequest{"get", "/apis"}, Count: 1, PerNode: 0.5},
		{kindOfRequest: kindOfRequest{"get", "nodes"}, Count: 1, PerNode: 0.5},
	}, counts)
	without, events := counts.total()
	require.Equal(t, 4, without)
	require.Equal(t, 3, events)
	require.Equal(t, 2, counts.statusWrites())
}

func TestBetween(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := begin.Add
	inside := localkube.Request{User: deploy.User, Time: at(time.Second), Verb: "get", Resource: "nodes"}
	nodeLease := localkube.Request{User: deploy.User, Time: at(time.Second), Verb: "create", Resource: "leases", Namespace: leaseNamespace}
	others, leader := between([]localkube.Request{
		{User: deploy.User, Time: at(-1), Verb: "get", Resource: "nodes"},
		inside,
		{User: controlUser, Time: at(time.Second), Verb: "get", Resource: "nodes"},
		{User: deploy.User, Time: at(time.Second), Verb: "update", Resource: "leases", Namespace: deploy.Namespace},
		nodeLease,
		{User: deploy.User, Time: at(2*time.Second + 1), Verb: "get", Resource: "nodes"},
	}, begin, at(2*time.Second))
	require.Equal(t, []localkube.Request{inside, nodeLease}, others)
	require.Equal(t, 1, leader)
}

func TestWatched(t *testing.T) {
	t.Parallel()
	what := watched([]localkube.Request{
		{User: deploy.User, Verb: "watch", Resource: "nodes", Code: 200},
		{User: deploy.User, Verb: "watch", Resource: "nodes", Code: 200},
		{User: deploy.User, Verb: "watch", Resource: "leases", Namespace: leaseNamespace, Code: 200},
		{User: deploy.User, Verb: "list", Resource: "pods", Code: 200},
		{User: deploy.User, Verb: "watch", Resource: "secrets", Code: 403},
		{User: controlUser, Verb: "watch", Resource: "leases", Code: 200},
	})
	require.Equal(t, []string{"leases in " + leaseNamespace, "nodes"}, what)
	require.Zero(t, leasesWatched("idle", what).Value)
	require.InDelta(t, 2, leasesWatched("idle", []string{"leases", "leases in kube-node-lease"}).Value, 0)
}

func TestStages(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	request := func(after time.Duration, verb, resource string) localkube.Request {
		return localkube.Request{User: deploy.User, Time: begin.Add(after), Verb: verb, Resource: resource}
	}
	got := stages([]localkube.Request{
		request(2*time.Millisecond, "get", "nodes"),
		request(4*time.Millisecond, "get", "nodes"),
		request(5*time.Millisecond, "create", "leases"),
		request(6*time.Millisecond, "create", "events"),
		request(20*time.Millisecond, "create", "remediations"),
	}, []window{{"a", begin, begin.Add(10 * time.Millisecond)}})
	require.Len(t, got, 2)
	require.InDelta(t, 2, got["get nodes"].P50, 0)
	require.Equal(t, 1, got["get nodes"].Count, "the first of its kind")
	require.InDelta(t, 5, got["create leases"].P50, 0)
}
