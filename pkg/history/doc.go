// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history records what became of the nodes that were unhealthy: one episode
// per illness of a node, from the moment it is unhealthy until it is healthy and
// has no own CR left. It is pure: it reads only its arguments, changes none of
// them, and never asks for the time.
//
//	            unhealthy
//	(nothing) ─────────────► open ──┬── no CR left, and
//	                          │ ▲   │     healthy, was remediated ► Recovered
//	             CRs come and │ │   │     healthy, was not ───────► RecoveredWithoutRemediation
//	             go: steps    └─┘   │     the node is gone:
//	             end, fencing       │       replaced for good ────► Replaced
//	                                │       else, see below ──────► NodeDeleted
//	                                └──   anything else ──────────► Cancelled
//
// Being about to be unhealthy neither begins an episode nor ends one. A healthy node
// with a CR left has finished, but its episode is open: only an outcome ends it, and if
// the node does not stay healthy it has not finished.
//
// # How it is used
//
// A process begins with [Recall], which reads the open episodes from the status that
// another process has left. After that the [Ledger] is what counts: each sync gives
// what it saw and did to [Ledger.Update] and keeps the ledger it gets, once its
// status is written. A sync that fails to write drops that ledger and reports
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
// All times are whole seconds. In every episode detected ≤ started ≤ fenced holds, and
// started ≤ finished ≤ released. They are read from several clocks; where these disagree,
// a later event gets the time of the earlier one. Steps keep the true creation time of
// their CR.
//
// # Deleted and replaced Nodes
//
// A remediator may delete a Node and have it registered anew. So the episode of a Node
// that was deleted while it had a CR stays open for an hour, until a healthy Node of that
// name is seen, whatever its health and labels are at first. Meanwhile the node need not
// be observed: [Ledger.Nodes] leaves it out until it has returned, and [Ledger.Recheck]
// has the end of the hour. After a restart, the hour is that of the last step, if that
// ended with the Node, and else begins anew.
//
// Any other Node that was created after its episode was detected, and after its last CR,
// is another one: the episode ends with NodeDeleted. A CR that is older than the Node and
// belongs to no open episode is a leftover of the Node before, and does not count.
package history
