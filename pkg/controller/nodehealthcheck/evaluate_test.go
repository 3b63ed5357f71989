// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// TestConstraintsOfNodes: what holds for one node only (spec 5.2).
func TestConstraintsOfNodes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node *corev1.Node
		want remediation.Constraints
	}{
		"17.1 it does not exist":           {want: remediation.Constraints{Paused: true, NodeConstraints: remediation.NodeConstraints{NodeDeleted: true}}},
		"17.5 the selector does not match": {node: testNode("n", labelled("role", "infra")), want: remediation.Constraints{Paused: true, NodeConstraints: remediation.NodeConstraints{Unselected: true}}},
		"16.1 it is selected":              {node: testNode("n", labelled("role", "worker")), want: remediation.Constraints{Paused: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testSnapshot(testCheck(func(nhc *v1alpha1.NodeHealthCheck) {
				nhc.Spec.MinHealthy, nhc.Spec.PauseRequests = new(intstr.FromInt32(0)), []string{"holiday"}
			}), testNode("n"))
			s.selector, s.objects[0], s.templates.Templates = labels.SelectorFromSet(labels.Set{"role": "worker"}), tc.node, []*object.Template{{}}
			s.nodes[0] = bareController().observeNode(s, nodeObject{name: "n", object: tc.node}, &ownCRs{})
			evaluate(s, epoch)
			require.Equal(t, tc.want, s.nodes[0].Constraints)
		})
	}
}

// TestNextAttempt: the plan of a node waits after a failed write (spec P1). It is the verdict
// that tells which attempt that is (spec P12).
func TestNextAttempt(t *testing.T) {
	t.Parallel()
	s := testSnapshot(testCheck(failsReady), testNode("a", conditions(testCondition("Ready", "False", epoch))), testNode("b"))
	now := epoch.Add(time.Minute)
	evaluate(s, now)
	s.state.attempts.Failed(attemptOf(&s.nodes[0]), &remediation.Outcome{Err: errors.New("denied"), Reason: v1alpha1.DecidedCreateFailed}, now)
	failed := s.state.attempts.Of(attemptOf(&s.nodes[0]))
	evaluate(s, now)
	require.NotZero(t, failed.Due)
	require.Equal(t, failed.Due, s.nodes[0].RetryAt)
	require.Equal(t, "denied", s.nodes[0].LastFailure)
	require.Equal(t, v1alpha1.DecidedCreateFailed, s.nodes[0].LastFailed)
	require.Zero(t, s.nodes[1].RetryAt)
	evaluate(s, epoch)
	require.Zero(t, s.nodes[0].RetryAt, "P12: nothing has failed for a node that is only soon unhealthy")
}
