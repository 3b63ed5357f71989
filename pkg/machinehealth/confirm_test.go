// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealth

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	another := func(m *Machine) { m.UID = "another" }
	moved := func(m *Machine) { m.Node = "another" }
	replaced := func(t *Target) { t.NodeUID = "another" }
	nodeless := func(t *Target) { t.NodeUID = "" }
	controlPlane := func(t *Target) { t.ControlPlane = true }
	deletion, external := v1beta1.RemediationMachineDeletion, v1beta1.RemediationExternal
	for name, tc := range map[string]struct {
		kind          v1beta1.RemediationType
		planned, live Target
		want          v1alpha1.DecisionReason
	}{
		"M8.4 as it was planned":                      {deletion, target(machine("m")), target(machine("m")), ""},
		"M8.4 it has recovered":                       {deletion, target(machine("m")), target(machine("m"), verdict(Healthy)), v1alpha1.DecidedRecovering},
		"M8.4 it is being deleted":                    {deletion, target(machine("m")), target(machine("m"), verdict(Deleting)), v1alpha1.DecidedRecovering},
		"M8.4 another of that name":                   {deletion, target(machine("m")), target(machine("m", another)), v1alpha1.DecidedRecovering},
		"M8.4 it is not selected":                     {deletion, target(machine("m")), target(machine("m"), unselected), v1alpha1.DecidedRecovering},
		"M13.1 it turns out to be a control plane":    {deletion, target(machine("m")), target(machine("m"), controlPlane), v1alpha1.DecidedRecovering},
		"M13.1 and was not planned as one":            {deletion, target(machine("m"), controlPlane), target(machine("m")), v1alpha1.DecidedRecovering},
		"M10.3 the plan was made without its Node":    {deletion, target(machine("m"), nodeless), target(machine("m")), v1alpha1.DecidedRecovering},
		"M10.3 or with another one":                   {deletion, target(machine("m")), target(machine("m"), replaced), v1alpha1.DecidedRecovering},
		"M10.3 the Machine names another Node":        {deletion, target(machine("m")), target(machine("m", moved), nodeless), v1alpha1.DecidedRecovering},
		"M10.3 its Node has gone meanwhile":           {deletion, target(machine("m")), target(machine("m"), nodeless), ""},
		"M14.1 another reason, which is not slowed":   {deletion, target(machine("m"), because(v1beta1.TriggerMachineFailed)), target(machine("m")), v1alpha1.DecidedRecovering},
		"M14.1 another reason, which is":              {deletion, target(machine("m")), target(machine("m"), because(v1beta1.TriggerMachineFailed)), v1alpha1.DecidedRecovering},
		"M9.2 it is paused":                           {deletion, target(machine("m")), target(machine("m"), func(t *Target) { t.Obstacles.MachinePaused = true }), v1beta1.DecidedMachinePaused},
		"M9.2 it is excluded":                         {deletion, target(machine("m")), target(machine("m"), func(t *Target) { t.Obstacles.Excluded = true }), v1alpha1.DecidedExcluded},
		"M9.1 its Node is being updated":              {deletion, target(machine("m")), target(machine("m"), updating), v1alpha1.DecidedClusterUpgrading},
		"M8.1 it has lost its owner":                  {deletion, target(machine("m")), target(machine("m", noOwner)), v1beta1.DecidedNoController},
		"M8.1 no obstacle if it is not deleted":       {external, target(machine("m")), target(machine("m", noOwner)), ""},
		"M11.2 another controller remediates it":      {deletion, target(machine("m")), target(machine("m", firstKey)), v1alpha1.DecidedRecovering},
		"M11.2 no obstacle to what has failed for it": {deletion, target(machine("m")), target(machine("m", firstKey, failedPhase)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := Plan{Target: &tc.planned, Type: tc.kind}
			require.Equal(t, tc.want, plan.Confirm(&tc.live))
		})
	}
}

// TestConfirmRecovery is the live look at a Machine before its remediation objects are deleted (spec M12.5).
func TestConfirmRecovery(t *testing.T) {
	t.Parallel()
	another := func(m *Machine) { m.UID = "another" }
	for name, tc := range map[string]struct {
		live     Target
		relapsed bool
	}{
		"it is still healthy":                          {target(machine("m"), verdict(Healthy)), false},
		"the watch has broken: it has failed again":    {target(machine("m")), true},
		"it fails, and may not for long":               {target(machine("m"), verdict(SoonUnhealthy)), true},
		"it is being deleted":                          {target(machine("m"), verdict(Deleting)), true},
		"another Machine has its name, and is healthy": {target(machine("m", another), verdict(Healthy)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned := target(machine("m"), verdict(UnderRemediation))
			require.Equal(t, tc.relapsed, (&Plan{Target: &planned}).ConfirmRecovery(&tc.live))
		})
	}
}
