// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memapi is a Kubernetes API server in memory, without sockets: an
// http.RoundTripper on which the clients of client-go work. It is for tests in virtual
// time (testing/synctest): all its waits are durable blocks, and it reads the clock of the
// bubble that it is used in.
//
// It stores objects of any resource under one resourceVersion counter, and serves get,
// list, watch, create, update, merge patch and delete with their preconditions, the status
// subresource, finalizers, generations, CustomResourceDefinitions, discovery, and reviews of
// permissions. It defaults, prunes and validates NodeHealthChecks, MachineHealthChecks and
// RemediationBudgets by their CustomResourceDefinitions, their status too. Of other kinds it
// checks no schema. A table of requests (test/contract) holds it to the real one. It collects no garbage and converts no versions.
//
// Each [Client] may have faults of its own: requests that are late, refused or not
// answered, watches that end or lag, lists that are stale. The server records every change
// and every request.
package memapi
