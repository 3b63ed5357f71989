// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation is the life of remediation objects (CRs). Its pure half
// reads templates and CRs, judges whether a template can be used, decides what is
// to be done about each node, and renders CRs; it knows no client and no clock.
// Its acting half, the Executor, is the only writer of CRs.
//
// A node without CR gets one, if nothing forbids it (Refusal says what does). The
// CR is then only read, until the node is healthy or gone and the CR is deleted:
//
//	            unhealthy, permitted              healthy, or Node gone
//	no own CR ───────────────────────► own CR ───────────────────────► deleting
//	   ▲                                                                  │
//	   └──────────────────────────────────────────────────────────────────┘
//	                   the API server no longer returns it
package remediation
