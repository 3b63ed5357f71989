// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestEscalationBlocked: a step does not end while its successor may not be created,
// and ends at once when it may; so does the last one (spec 5.2, 5.3, 10.1, 15.3, 17.5).
func TestEscalationBlocked(t *testing.T) {
	t.Parallel()
	label := func(key string, value any) func(l *ladder) {
		return func(l *ladder) {
			l.labelNode("a", map[string]any{key: value})
			l.labelNode("b", map[string]any{key: value})
		}
	}
	tests := map[string]struct{ block, unblock func(l *ladder) }{
		"10.1-pause": {
			block:   func(l *ladder) { l.updateNHC(pause("test")) },
			unblock: func(l *ladder) { l.updateNHC(pause()) },
		},
		"8.5-gate-closed-by-spec": {
			block:   func(l *ladder) { l.updateNHC(minHealthy(intstr.FromString("100%"))) },
			unblock: func(l *ladder) { l.updateNHC(minHealthy(intstr.FromString("0%"))) },
		},
		"15.3-exclusion": {
			block: func(l *ladder) {
				label(v1alpha1.LabelExclude, "true")(l)
				l.catchUpNodes()
			},
			unblock: label(v1alpha1.LabelExclude, nil),
		},
		"17.5-unselected": {
			block: func(l *ladder) {
				label(scenarioLabel, "other")(l)
				l.eventually("they are not observed any more", func() bool { return *l.status().ObservedNodes == 1 })
			},
			unblock: func(l *ladder) { label(scenarioLabel, l.name)(l) },
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

// TestEscalationGateOpensByRecovery: the gate opens without a change of the NodeHealthCheck
// (spec 5.3, 8.5, P12).
func TestEscalationGateOpensByRecovery(t *testing.T) {
	t.Parallel()
	l := newLadder(t, sharedCluster(t), 2)
	l.createNodes("a", "b", "c", "d")
	l.createNHC(l.escalation(), minHealthy(intstr.FromInt32(2)))
	conclude := l.witness(0)
	l.fail("a")
	l.fail("b")
	l.eventuallyStep("a", 0)
	l.eventuallyStep("b", 0)
	l.reportFailure("b")
	l.eventuallyStep("b", 1)
	l.fail("c")
	l.fail("d")
	l.eventuallyListed(map[string]int{"a": 1, "b": 2, "c": 0, "d": 0, "witness": 1})
	l.reportFailure("a")
	conclude() // It leaves one healthy node, which is not enough.
	l.eventuallyCounts(5, 1)
	l.requireFirstStep("a")
	l.rungs[1].reportFailure("b")
	require.Empty(t, l.events("NoTemplateLeft"))
	l.heal("c")
	l.eventuallyStep("a", 1)
	l.eventuallyExhausted("b")
	l.eventuallyEvent("NoTemplateLeft", l.noTemplateLeft("b"))
}

// TestEscalationOfNodesThatAreNotUnhealthy: they have CRs, and stay where they are
// (spec 7.5, 16.4).
func TestEscalationOfNodesThatAreNotUnhealthy(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.NodeHealthCheckSpec){
		"7.5-soon-unhealthy": func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.UnhealthyConditions = []v1alpha1.UnhealthyCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Duration: metav1.Duration{Duration: 24 * time.Hour}},
			}
		},
		"16.4-healthy-with-delay": func(spec *v1alpha1.NodeHealthCheckSpec) {
			spec.HealthyDelay = &metav1.Duration{Duration: -time.Second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLadder(t, sharedCluster(t), 2)
			l.createNodes("a", "b")
			l.createNHC(l.escalation(), change)
			for _, name := range []string{"a", "b"} {
				l.fail(name)
				l.eventuallyStep(name, 0)
			}
			l.heal("a")
			l.reportFailure("a")
			// Both changes are seen once another CR of this kind has led to something.
			l.reportFailure("b")
			l.eventuallyStep("b", 1)
			l.requireFirstStep("a")
			l.fail("a")
			l.eventuallyStep("a", 1)
		})
	}
}
