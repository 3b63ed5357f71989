// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import ()

const controlPlaneRole = "node-role.kubernetes.io/control-plane"
