// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/evaluation"
	"github.com/nhc-controller/nhc-controller/pkg/health"
	"github.com/nhc-controller/nhc-controller/pkg/remediation"
)

// keptAnnotations are the annotations of Nodes that the cache has (TrimNode): all that
// evaluation.Facts and decisions read.
var keptAnnotations = []string{
	v1alpha1.AnnotationManuallyConfirmedHealthy,
	remediation.AnnotationOpenShiftMachine,
	remediation.AnnotationClusterAPIMachine,
	remediation.AnnotationClusterAPINamespace,
	remediation.AnnotationClusterAPIName,
	remediation.AnnotationCurrentConfig,
	remediation.AnnotationDesiredConfig,
}

// nodeMatters reports whether a Node has changed in a way that may change a decision about
// it. Changes of the selection do not count (spec 21.1).
func nodeMatters(old, node *corev1.Node) bool {
	return evaluation.FactsOf(old) != evaluation.FactsOf(node) || !health.SameConditions(old.Status.Conditions, node.Status.Conditions)
}

// selects reports whether the selector matches a Node.
func (s *snapshot) selects(node *corev1.Node) bool {
	return node != nil && s.selector.Matches(labelSet(node))
}
