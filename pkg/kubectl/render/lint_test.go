// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/terminal"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

func TestLintReport(t *testing.T) {
	t.Parallel()
	report := &lint.Report{
		Objects: []lint.Object{
			{Source: "clusters/eu/workers.yaml", Kind: "NodeHealthCheck", Name: "workers", Findings: []lint.Finding{
				{Severity: lint.Error, Field: "spec", Line: 4, What: "Invalid value: minHealthy and maxUnhealthy cannot be specified at the same time"},
				{Severity: lint.Error, Field: "spec.minHealth", Line: 12, What: `unknown field "spec.minHealth"`, Do: "correct the name: kubectl refuses it, and other clients have it dropped silently"},
			}},
			{Source: "clusters/eu/pods.yaml", Kind: "Pod", Namespace: "default", Name: "a", Skipped: true, Reason: "there are no rules about this kind"},
			{Source: "clusters/eu/pool.yaml", Kind: "NodeHealthCheck", Name: "pool-a", Findings: []lint.Finding{
				{Severity: lint.Advice, Field: "spec.escalatingRemediations[0].remediationTemplate", What: "Remediation template not found: \x1b[2J\"failed to get external remediation template b/c: none\"", Do: "correct the reference, or create what is missing"},
				{Severity: lint.Advice, Field: "spec.selector", What: "NodeHealthCheck all selects 5 nodes of these, too (node-0, node-1, node-2 and 2 more): whichever begins first remediates, with its own limits", Do: "make the selectors disjoint"},
			}},
			{Kind: "MachineHealthCheck", Namespace: "openshift-machine-api", Name: "workers"},
			{Source: "notes.yaml, document 2", Findings: []lint.Finding{{Severity: lint.Error, What: "It is no Kubernetes object, which has an apiVersion and a kind"}}},
		},
		Errors: 3, Advice: 2,
		Missing: []view.Missing{{Resource: "the permissions of the controller", Reason: "You may not create subjectaccessreviews: ask for the permission."}},
	}
	golden(t, "lint", func(p *terminal.Printer) { Lint(p, report) })
	golden(t, "lint-nothing", func(p *terminal.Printer) { Lint(p, &lint.Report{Offline: true}) })
}
