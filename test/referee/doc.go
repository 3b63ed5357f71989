// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package referee watches a cluster from outside while the controller works in it, and
// has package rules judge what happens.
//
//	API server ──watches──► followers ──changes──► rules.Judge, in the order of resourceVersion
//	     └─── audit log: when the controller has asked for what ──────┤      │
//	          its own logs: by which version of a health check ───────┘      │
//	                                                     violations, with the timeline of the node
package referee
