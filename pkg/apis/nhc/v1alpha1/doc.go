// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the project's own API: what the group remediation.medik8s.io of the
// upstream medik8s operator does not have.
//
// +k8s:deepcopy-gen=package
// +groupName=nhc-controller.io
// +groupGoName=NHC
package v1alpha1
