// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation decides what to do about each node of an owner, such as a NodeHealthCheck.
// It is pure: it knows no client and no clock. Package object has the objects of remediators,
// package execute carries out the plans.
//
// A node without CR gets one, if no constraint forbids it. The CR is then only read, until the
// node is healthy or gone and the CR is deleted:
//
//	            unhealthy, permitted              healthy, or Node gone
//	no own CR ───────────────────────► own CR ───────────────────────► deleting
//	   ▲                                                                  │
//	   └──────────────────────────────────────────────────────────────────┘
//	                   the API server no longer returns it
package remediation
