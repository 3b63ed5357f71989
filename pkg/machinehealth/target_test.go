// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/test/objecttest"
)

// TestBegunAt: since when a remediation runs is told by times of the API server, except for an annotation (spec M12.6).
func TestBegunAt(t *testing.T) {
	t.Parallel()
	said := func(reason v1alpha1.DecisionReason) *v1beta1.UnhealthyMachine {
		return &v1beta1.UnhealthyMachine{Decision: v1alpha1.Decision{Reason: reason, Since: metav1.NewTime(epoch.Add(time.Hour))}}
	}
	deleted := machine("m", deletingMachine).DeletionTimestamp.Time
	own, going := cr("m"), cr("m", objecttest.Deleting)
	for name, tc := range map[string]struct {
		target  Target
		entry   *v1beta1.UnhealthyMachine
		deleted bool
		want    time.Time
	}{
		"nothing is under way":             {target: target(machine("m"))},
		"a deletion of ours":               {target: target(machine("m", deletingMachine), verdict(Deleting)), deleted: true, want: deleted},
		"a deletion by others":             {target: target(machine("m", deletingMachine), verdict(Deleting))},
		"a CR":                             {target: target(machine("m"), with(own)), want: own.CreationTimestamp.Time},
		"the deletion of a CR":             {target: target(machine("m"), with(going)), want: going.DeletionTimestamp.Time},
		"an annotation that was seen":      {target: target(machine("m", firstKey)), entry: said(v1beta1.DecidedExternalRemediation), want: epoch.Add(time.Hour)},
		"an annotation that is overdue":    {target: target(machine("m", firstKey)), entry: said(v1beta1.DecidedRemediationOverdue), want: epoch.Add(30 * time.Minute)},
		"an annotation that is new":        {target: target(machine("m", firstKey)), entry: said(v1alpha1.DecidedLeaseTaken)},
		"an annotation without any entry":  {target: target(machine("m", firstKey))},
		"what was said of one without any": {target: target(machine("m")), entry: said(v1beta1.DecidedExternalRemediation)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.target.begunAt(tc.entry, tc.deleted))
		})
	}
}
