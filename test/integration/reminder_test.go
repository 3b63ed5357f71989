// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestReminder: a remediator that is not woken by a Node, as fence-agents-remediation up
// to 0.8.0, holds on to its CR when the Node has gone, and does not notice that it is back.
// It is told again, once, and the node counts as healthy (spec 13.8, P12).
func TestReminder(t *testing.T) {
	t.Parallel()
	s := newScenario(t, sharedCluster(t))
	s.createNodes("n")
	s.createNHC()
	s.fail("n")
	s.eventuallyCR("n")
	s.setFinalizers("n", rungFinalizer)
	s.deleteNode("n")
	mark := func() string {
		cr := s.cr("n")
		require.NotNil(t, cr, "13.8: its finalizer is held")
		return cr.GetAnnotations()[v1alpha1.AnnotationTimedOut]
	}
	s.eventually("the CR is told to stop", func() bool { return mark() != "" })
	first := mark()
	s.eventually("the leftover is named", func() bool {
		condition := s.condition(v1alpha1.ConditionLeftoverRemediations)
		return condition.Status == "True"
	})
	require.Contains(t, s.condition(v1alpha1.ConditionLeftoverRemediations).Message, s.node("n"), "17.4")

	// The stand-in looks at a CR when it is written, and only then: without the Node it
	// does nothing.
	s.createNodes("n")
	s.eventuallyCounts(1, 0)
	require.Equal(t, first, mark(), "not before a minute has passed")
	s.eventually("the CR is told again", func() bool { return mark() != first })
	second := mark()
	s.catchUp()
	require.Equal(t, second, mark(), "13.8: once per return of the Node")
	s.setFinalizers("n")
	s.eventuallyCounts(1, 1)
	s.eventually("the leftover has gone", func() bool {
		return s.condition(v1alpha1.ConditionLeftoverRemediations).Status == ""
	})
}
