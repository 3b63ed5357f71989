// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnePerType(t *testing.T) {
	t.Parallel()
	at := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, second int64) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(time.Unix(second, 0))}
	}
	ready := func(status corev1.ConditionStatus, second int64) corev1.NodeCondition {
		return at(corev1.NodeReady, status, second)
	}
	disk := func(status corev1.ConditionStatus, second int64) corev1.NodeCondition {
		return at(corev1.NodeDiskPressure, status, second)
	}
	type conditions = []corev1.NodeCondition
	for name, tc := range map[string]struct{ given, want conditions }{
		"none":                        {conditions{}, conditions{}},
		"no double":                   {conditions{ready("True", 1), disk("False", 2)}, conditions{ready("True", 1), disk("False", 2)}},
		"7.2 not ready is worse":      {conditions{ready("True", 9), disk("False", 2), ready("False", 1)}, conditions{ready("False", 1), disk("False", 2)}},
		"7.2 unknown is worse":        {conditions{ready("Unknown", 1), ready("True", 9)}, conditions{ready("Unknown", 1)}},
		"7.2 pressure is worse":       {conditions{disk("False", 9), disk("True", 1)}, conditions{disk("True", 1)}},
		"7.2 of two bad the later":    {conditions{ready("Unknown", 1), ready("False", 2)}, conditions{ready("False", 2)}},
		"7.2 of three the worst":      {conditions{disk("False", 3), disk("Unknown", 1), disk("False", 4)}, conditions{disk("Unknown", 1)}},
		"7.2 of two good the later":   {conditions{ready("True", 2), ready("True", 1)}, conditions{ready("True", 2)}},
		"7.2 without a time it stays": {conditions{{Type: "A", Status: "True", Reason: "x"}, {Type: "A", Status: "True"}}, conditions{{Type: "A", Status: "True", Reason: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := slices.Clone(tc.given)
			require.Equal(t, tc.want, OnePerType(given))
			require.Equal(t, tc.given, given, "what is given is shared, and stays")
		})
	}
}
