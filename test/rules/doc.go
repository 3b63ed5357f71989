// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides which rules of the specification the controller has broken. It does
// not use the controller's code: it judges health, the gate, steps and leases by the
// specification, from the objects that an API server has stored. It is pure: changes,
// requests and instants are values that it is given. test/referee feeds it from a real API
// server, and a simulation from one in memory.
//
// # What the controller could not have seen
//
// A rule such as "no remediation while paused" is about what the controller knew, not
// about what was stored an instant before its request arrived. So every rule looks at
// all versions of an object that the controller may have gone by: the one that was in
// effect at the beginning of a window, and all that came after it. Only if each of them
// forbade what was done, it is a violation. Tolerance says how long the window is: as
// short as three requests of the controller allow to tell it.
//
//   - The lease that is written before a first CR has the clock reading of the sync
//     that has decided (acquireTime): what had been visible for Tolerance.Cache by then
//     was known.
//   - The Node is read live before the CR is created. The requests have the instant:
//     what had been stored before it was seen, without any tolerance.
//   - The creation itself arrived when the requests say so.
//
// What is stored at once and in order has no window: two CRs of one step, two control
// plane nodes under remediation.
//
// # Order
//
// Resource versions come from one counter of etcd, so that those of different kinds
// can be compared. That is true of the clusters of the tests (one etcd) and is no
// promise of Kubernetes.
package rules
