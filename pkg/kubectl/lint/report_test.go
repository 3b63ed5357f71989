// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// TestReport: errors come first, and objects that are to be applied replace existing ones.
func TestReport(t *testing.T) {
	t.Parallel()
	refused := Object{Kind: v1alpha1.Kind, Name: "refused"}
	refused.Refuse("spec.selector", "Selector is mandatory")
	refused.RefuseUnknown("spec.minHealth")
	changed := accepted(t, v1alpha1.Kind, "all", `{selector: {matchLabels: {pool: b}}, stormCooldownDuration: 5m, maxUnhealthy: 0`+template+`}`)
	objects := []Object{
		refused, {Kind: "Pod", Skipped: true}, Unreadable("a.yaml", "it is empty"),
		{Kind: v1alpha1.Kind, Name: "all", Accepted: changed, Findings: []Finding{{Severity: Advice, What: "x"}, {Severity: Error, What: "y"}}},
		{Kind: v1alpha1.Kind, Name: "workers", Accepted: accepted(t, v1alpha1.Kind, "workers", `{`+workers+`maxUnhealthy: 1`+template+`}`)},
		{Kind: machinev1beta1.Kind, Accepted: accepted(t, machinev1beta1.Kind, "m", `{selector: {matchLabels: {pool: a}}, maxUnhealthy: 0}`)},
		{Kind: nhcv1alpha1.BudgetKind, Accepted: accepted(t, nhcv1alpha1.BudgetKind, "m", `{nodeSelector: {}, maxUnhealthy: 0}`)},
	}
	facts := aCluster(nodes(3, "node", "pool=a"), nodes(3, "other", "pool=b"))
	facts.NodeHealthChecks = []*v1alpha1.NodeHealthCheck{nhcNamed(t, "all", `selector: {matchExpressions: [{key: pool, operator: Exists}]}`)}
	report := NewReport(objects, facts)
	require.Len(t, facts.NodeHealthChecks, 2)
	require.Len(t, facts.MachineHealthChecks, 1)
	require.Equal(t, []int{4, 5, 6}, []int{report.Errors, report.Advice, report.Linted()})
	require.Equal(t, "4 errors and 5 pieces of advice in 6 objects.", report.Summary())
	require.Equal(t, "y", report.Objects[3].Findings[0].What)
	require.Equal(t, "It is empty", report.Objects[2].Findings[0].What)
	require.Empty(t, report.Objects[4].Findings, "nothing overlaps any more")
	require.Equal(t, "0 errors in 0 objects.", (&Report{}).Summary())
	_, err := NewAccepted(&unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersions[v1alpha1.Kind], "kind": v1alpha1.Kind, "spec": "none"}})
	require.ErrorContains(t, err, "reading the NodeHealthCheck")
}

// TestOtherTemplates: O17 advice about a template that is missing names those that exist.
func TestOtherTemplates(t *testing.T) {
	t.Parallel()
	nhc := nhcNamed(t, "workers", workers+`maxUnhealthy: 1`+template)
	facts := &Facts{Templates: map[corev1.ObjectReference]Template{*nhc.Spec.RemediationTemplate: {Problem: "It is missing", Others: []string{"b/power-cycle"}}}}
	require.Equal(t, []Finding{{
		Severity: Advice, Field: "spec.remediationTemplate", What: "It is missing", Do: "correct the reference, or create what is missing: there is b/power-cycle",
	}}, NodeHealthCheck(nhc, facts))
}
