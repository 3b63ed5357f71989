// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install tests each way to install the controller on a real control plane, with the
// commands of the documentation. The pods are admitted, and the controller leads and remediates
// a node. Uninstalling leaves the NodeHealthChecks and the objects that others share, and
// removing these leaves nothing. `make install-test` runs it, and names Helm in the environment
// variable NHC_HELM. `make test` does not, because Helm takes minutes to compile.
package install
