// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestEscalationBlocked: a step does not end while its successor may not be created,
// and ends at once when it may; so does the last one (spec 5.2, 5.3, 10.1). TestPermissions
// has all that blocks.
func TestEscalationBlocked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ block, unblock func(l *ladder) }{
		"10.1-pause": {
			block:   func(l *ladder) { l.updateNHC(pause("test")) },
			unblock: func(l *ladder) { l.updateNHC(pause()) },
		},
		"6.7-template-missing": {
			block: func(l *ladder) {
				l.rungs[1].deleteTemplate()
				l.eventuallyDisabled(v1alpha1.ReasonTemplateNotFound)
			},
			unblock: func(l *ladder) { l.rungs[1].createTemplate(usualTemplate()) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLadder(t, sharedCluster(t), 2)
			l.createNodes("a", "b")
			l.createNHC(l.escalation())
			l.fail("a")
			before := l.eventuallyStep("a", 0)
			l.fail("b")
			l.eventuallyStep("b", 0)
			l.reportFailure("b")
			l.eventuallyStep("b", 1)
			conclude := l.witness(1)
			tc.block(l)
			l.reportFailure("a")
			l.rungs[1].reportFailure("b")
			conclude()
			l.requireFirstStep("a")
			l.eventuallyStep("b", 1)
			require.NotContains(t, l.rungs[1].cr("b").GetAnnotations(), v1alpha1.AnnotationTimedOut, "5.3")
			require.Empty(t, l.events("NoTemplateLeft"))
			tc.unblock(l)
			crs := l.eventuallyStep("a", 1)
			require.Equal(t, before[0].GetUID(), crs[0].GetUID())
			l.requireEnded("a", 0, crs[0])
			require.Len(t, l.patches("a"), 1)
			l.requireEnded("b", 1, l.eventuallyExhausted("b")[1])
			l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("b"))
		})
	}
}
