// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestUpdateEnds: the update of the machine configuration of a Node holds its own Machine, for 30 min from when it
// became unhealthy (spec M9.1).
func TestUpdateEnds(t *testing.T) {
	t.Parallel()
	annotations := func(current, desired string) map[string]string {
		return map[string]string{remediation.AnnotationCurrentConfig: current, remediation.AnnotationDesiredConfig: desired}
	}
	end := epoch.Add(30 * time.Minute)
	for name, tc := range map[string]struct {
		annotations map[string]string
		now, want   time.Time
	}{
		"M9.1 no annotations":                    {now: epoch},
		"M9.1 the Node is up to date":            {annotations: annotations("rendered-1", "rendered-1"), now: epoch},
		"M9.1 F4 the Node reboots for an update": {annotations: annotations("rendered-1", "rendered-2"), now: epoch, want: end},
		"M9.1 it may be back in time":            {annotations: annotations("rendered-1", "rendered-2"), now: end.Add(-1), want: end},
		"M9.1 it does not come back":             {annotations: annotations("rendered-1", "rendered-2"), now: end},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, UpdateEnds(tc.annotations, epoch, tc.now))
		})
	}
}
