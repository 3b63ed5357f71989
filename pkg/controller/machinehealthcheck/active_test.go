// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
	"github.com/nhc-controller/nhc-controller/pkg/reconcile"
)

// TestNoEventOfAnInactiveController: a sync that ends after the controller has become inactive reports nothing (spec
// M4.2).
func TestNoEventOfAnInactiveController(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(2)
	c := &Controller{Shell: &reconcile.Shell{Config: reconcile.Config{Recorder: recorder}}}
	for _, active := range []bool{true, false} {
		c.active.set(t.Context(), active)
		c.record(&v1beta1.MachineHealthCheck{}, []machinehealth.Event{{Type: "Normal", Reason: "Remediated"}})
		require.Len(t, recorder.Events, 1)
	}
}
