// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart tests charts/nhc-controller with Helm: what it renders is what kustomize
// renders of the manifests, a real API server accepts it, and it can be installed, upgraded
// and uninstalled. `make verify-chart` runs it, and names Helm in the environment variable
// NHC_HELM; `make test` does not, since Helm takes minutes to compile.
package chart
