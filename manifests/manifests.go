// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests has those of the manifests that programs read: what admission checks. The
// plugin compares them with those of the cluster, and judges files by them.
package manifests

import "embed"

// Files are the CustomResourceDefinitions and the ValidatingAdmissionPolicies, by their paths in
// this directory.
//
//go:embed base/crd/*.yaml base/admission*.yaml
//go:embed components/machine-health-check/crd/*.yaml components/machine-health-check/without-crd/admission*.yaml
var Files embed.FS
