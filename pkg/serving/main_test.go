// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
