// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history tells what became of the nodes that were unhealthy: one episode
// per illness of a node, from the moment it is unhealthy until it is healthy and
// has no own CR left. It is pure: it reads only its arguments, changes none of
// them, and never asks for the time.
//
//	            unhealthy
//	(nothing) ─────────────► open ──┬── no CR left, and
//	                          │ ▲   │     the node is gone ──────► NodeDeleted
//	             CRs come and │ │   │     healthy, was remediated ► Recovered
//	             go: steps    └─┘   │     healthy, was not ───────► RecoveredWithoutRemediation
//	             end, fencing       └──   anything else ─────────► Cancelled
//
// Being about to be unhealthy neither begins an episode nor ends one.
//
// # How it is used
//
// A process begins with [Recall], which reads the open episodes from the status
// that somebody has left. After that the [Ledger] is what counts: each round gives
// what it saw and did to [Ledger.Update] and keeps the ledger it gets, once its
// status is written. A round that fails to write drops that ledger and tells of
// nothing that ended; the next one comes to the same conclusions.
//
// The history is a record, no news: it is never worth a write by itself. The caller
// computes the new status with the old history first, and asks [Ledger.List] for
// the new one only if something else differs. What is not written for that reason
// stays in the ledger and goes out with the next write. A restart before that loses
// nothing but accuracy: [Ledger.Update] finds it again, from the times that CRs and
// conditions carry, or else dates it to the moment at which it is seen again.
//
// # Times
//
// All times are whole seconds, and detected ≤ started ≤ fenced ≤ finished holds in
// every episode. They are read from several clocks; where these disagree, a later
// event gets the time of the earlier one. Steps keep the true creation time of
// their CR.
//
// # Namesakes
//
// A Node that was created after its episode was detected is another one. If the
// episode has no CR any more, it ends with NodeDeleted, whatever the new Node is
// like; as long as it has one, it goes on, because the CR is for that name. A CR
// that is older than the Node and belongs to no open episode is a leftover of the
// Node before, and does not count.
package history
