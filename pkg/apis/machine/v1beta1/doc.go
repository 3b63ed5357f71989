// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 contains the MachineHealthCheck of API group machine.openshift.io, as
// OpenShift defines it, with a few status fields of our own. It holds types and constants, and
// no logic. Durations are strings here: an object that was stored with one that cannot be
// parsed must not keep all others from being decoded (spec M3.4).
//
// +k8s:deepcopy-gen=package
// +groupName=machine.openshift.io
package v1beta1
