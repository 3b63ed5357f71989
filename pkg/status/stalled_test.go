// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// TestStalled: what somebody has to correct is told in the condition that tools know, and nothing else (spec 18.7).
func TestStalled(t *testing.T) {
	t.Parallel()
	three := health.Gate{Observed: 3}
	for name, tc := range map[string]struct {
		disabled metav1.ConditionStatus
		context  remediation.Context
		reason   string // Empty if it is absent.
		message  string
	}{
		"all is well":               {disabled: metav1.ConditionFalse, context: remediation.Context{Gate: three}},
		"templates are not known":   {context: remediation.Context{Gate: three}},
		"the gate is closed":        {disabled: metav1.ConditionFalse, context: remediation.Context{Gate: three, Constraints: remediation.Constraints{GateClosed: true}}},
		"Disabled":                  {disabled: metav1.ConditionTrue, context: remediation.Context{Gate: three}, reason: "RemediationTemplateNotFound", message: "gone"},
		"an invalid spec":           {disabled: metav1.ConditionFalse, context: remediation.Context{Gate: three, SpecProblem: "wrong"}, reason: "InvalidSpec", message: "wrong"},
		"no nodes":                  {disabled: metav1.ConditionFalse, reason: "NoNodes", message: "the selector selects no node"},
		"no nodes, and paused":      {disabled: metav1.ConditionFalse, context: remediation.Context{Constraints: remediation.Constraints{Paused: true}}, reason: "NoNodes", message: "the selector selects no node"},
		"the first of all that are": {disabled: metav1.ConditionTrue, context: remediation.Context{SpecProblem: "wrong"}, reason: "RemediationTemplateNotFound", message: "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nhc, before := testCheck(), metav1.NewTime(epoch)
			c := &conditions{generation: nhc.Generation, now: epoch.Add(time.Hour)}
			c.list = []metav1.Condition{{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "Other", LastTransitionTime: before}}
			if tc.disabled != "" {
				c.list = append(c.list, metav1.Condition{Type: v1alpha1.ConditionDisabled, Status: tc.disabled, Reason: "RemediationTemplateNotFound", Message: "gone"})
			}
			c.setStalled(&tc.context)
			stalled := meta.FindStatusCondition(c.list, "Stalled")
			if tc.reason == "" {
				require.Nil(t, stalled)
				return
			}
			require.Equal(t, &metav1.Condition{
				Type: "Stalled", Status: metav1.ConditionTrue, Reason: tc.reason, Message: tc.message, ObservedGeneration: 3, LastTransitionTime: before,
			}, stalled)
		})
	}
}
