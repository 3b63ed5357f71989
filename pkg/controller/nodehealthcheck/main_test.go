// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The default handlers slow down repeated errors by a clock that all tests
	// share; in a bubble, where time starts anew, that would be for decades.
	utilruntime.ErrorHandlers = nil //nolint:reassign // before any test
	// A controller ends all that it has begun. The queue of a controller that was never run
	// still waits.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"))
}
