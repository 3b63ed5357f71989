// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the node-health controller: the group
// remediation.medik8s.io of the upstream medik8s operator, whose objects work
// unchanged.
//
// +k8s:deepcopy-gen=package
// +groupName=remediation.medik8s.io
package v1alpha1
