// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import ()

// hold is the finalizer of a remediator that has not finished.
const hold = "test.nhc-controller.io/hold"
