// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history records what happened to unhealthy nodes. It has one episode per
// illness of a node, from the moment it is unhealthy until it is healthy and has no own
// CR left. It is pure: it reads only its arguments, changes none of them, and never asks
// for the time.
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
// The state SoonUnhealthy neither begins an episode nor ends one. A healthy node with a CR
// left has finished, but its episode stays open: only an outcome ends it. If the node does
// not stay healthy, it has not finished.
//
// # How it is used
//
// A process begins with [Recall], which reads the open episodes from the status of an
// earlier process. After that it uses the [Ledger]: each sync gives its observations and
// actions to [Ledger.Update], and keeps the new ledger once its status is written. A sync
// that fails to write drops the new ledger and reports no ended episode. The next sync
// comes to the same conclusions.
//
// Only the end of an episode is worth a write by itself. Otherwise the caller computes the new
// status with the old history first, and asks [Ledger.List] for the new history only if something
// else differs. Until then the changes stay in the ledger. A restart before the next
// write only loses accuracy: [Ledger.Update] finds the changes again, from the times of
// CRs and conditions, or dates them to the moment at which it sees them.
//
// # Times
//
// All times are whole seconds. In every episode, detected ≤ started ≤ fenced and started ≤
// finished ≤ released hold. The times come from several clocks. If these disagree, a later
// event gets the time of the earlier one. Steps keep the true creation time of their CR.
//
// # Deleted and replaced Nodes
//
// A remediator may delete a Node and have it registered anew. A CR connects the two: the
// episode of a deleted Node stays open while one is left, until its remediator gives up the
// finalizer. Without a CR, a Node that was created after its episode was detected, and after
// its last CR, is another Node: the episode ends with NodeDeleted. A CR that is older than the
// Node and belongs to no open episode is a leftover of an earlier Node, and does not count.
package history
