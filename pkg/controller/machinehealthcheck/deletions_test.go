// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/machinehealth"
)

// TestDeletions: a deletion counts from the request until the replacement is Healthy, for at most 30 minutes, and as
// long as the Machine shows it (spec B3.2).
func TestDeletions(t *testing.T) {
	t.Parallel()
	at := func(minute int) *metav1.Time {
		return new(metav1.NewTime(time.Date(2026, time.January, 7, 12, minute, 0, 0, time.UTC)))
	}
	deletion := func(started, finished *metav1.Time) v1beta1.Remediation {
		return v1beta1.Remediation{RemediationType: v1beta1.RemediationMachineDeletion, Started: started, Finished: finished}
	}
	there := &machinehealth.Machine{}
	deleting := &machinehealth.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(5)}}
	for name, tc := range map[string]struct {
		entry   v1beta1.Remediation
		machine *machinehealth.Machine
		now     int
		want    bool
		until   *metav1.Time
	}{
		"requested, and the cache is behind":        {entry: deletion(at(5), nil), machine: there, now: 5, want: true, until: at(35)},
		"the Machine is being deleted":              {entry: deletion(at(5), nil), machine: deleting, now: 50, want: true},
		"it is, and the replacement is healthy":     {entry: deletion(at(5), at(7)), machine: deleting, now: 8, want: true},
		"another one of that name is being deleted": {entry: deletion(at(1), at(3)), machine: deleting, now: 8},
		"it is gone, and not replaced":              {entry: deletion(at(5), nil), now: 34, want: true, until: at(35)},
		"it is not replaced for 30 minutes":         {entry: deletion(at(5), nil), now: 35, until: at(35)},
		"it is replaced":                            {entry: deletion(at(5), at(7)), now: 8, until: at(35)},
		"external: the caches show it":              {entry: v1beta1.Remediation{RemediationType: v1beta1.RemediationExternal, Started: at(5)}, machine: there, now: 8},
		"it waits":                                  {entry: v1beta1.Remediation{}, machine: there, now: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			until, is := goesOn(&tc.entry, tc.machine, at(tc.now).Time)
			require.Equal(t, tc.want, is)
			if tc.until == nil {
				require.Zero(t, until)
			} else {
				require.Equal(t, tc.until.Time, until)
			}
		})
	}
}
