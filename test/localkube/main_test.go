// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(parentEnv); mode != "" {
		actAsParent(mode) // Does not return.
	}
	os.Exit(m.Run())
}
