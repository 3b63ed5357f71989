// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package patience says how long a test waits for something that comes by itself. It bounds a failure and measures nothing.
package patience

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Limit is how long a test waits, on any machine.
const Limit = 10 * time.Minute

// Eventually waits until something holds. A test whose context is done fails at once.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	err := wait.PollUntilContextTimeout(tb.Context(), 100*time.Millisecond, Limit, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		tb.Fatalf("did not come: %s", what)
	}
}
