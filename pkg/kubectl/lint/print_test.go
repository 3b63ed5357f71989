// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"io"
	"testing"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
	"github.com/nhc-controller/nhc-controller/test/golden"
)

// compare compares the output with files.
func compare(t *testing.T, name string, show func(*view.Printer)) {
	t.Helper()
	golden.Check(t, name, func(out io.Writer, width int, colour bool) {
		show(view.NewPrinter(out, view.Options{Width: width, Colour: colour}))
	})
}

func TestLintReport(t *testing.T) {
	t.Parallel()
	report := &Report{
		Objects: []Object{
			{Source: "clusters/eu/workers.yaml", Kind: "NodeHealthCheck", Name: "workers", Findings: []Finding{
				{Severity: Error, Field: "spec", Line: 4, What: "Invalid value: minHealthy and maxUnhealthy cannot be specified at the same time"},
				{Severity: Error, Field: "spec.minHealth", Line: 12, What: `unknown field "spec.minHealth"`, Do: "correct the name: kubectl refuses it, and other clients have it dropped silently"},
			}},
			{Source: "clusters/eu/pods.yaml", Kind: "Pod", Namespace: "default", Name: "a", Skipped: true, Reason: "there are no rules about this kind"},
			{Source: "clusters/eu/pool.yaml", Kind: "NodeHealthCheck", Name: "pool-a", Findings: []Finding{
				{Severity: Advice, Field: "spec.escalatingRemediations[0].remediationTemplate", What: "Remediation template not found: \x1b[2J\"failed to get external remediation template b/c: none\"", Do: "correct the reference, or create what is missing"},
				{Severity: Advice, Field: "spec.selector", What: "NodeHealthCheck all selects 5 nodes of these, too (node-0, node-1, node-2 and 2 more): whichever begins first remediates, with its own limits", Do: "make the selectors disjoint"},
			}},
			{Kind: "MachineHealthCheck", Namespace: "openshift-machine-api", Name: "workers"},
			{Source: "notes.yaml, document 2", Findings: []Finding{{Severity: Error, What: "It is no Kubernetes object, which has an apiVersion and a kind"}}},
		},
		Errors: 3, Advice: 2,
		Missing: []view.Missing{{Resource: "the permissions of the controller", Reason: "You may not create subjectaccessreviews: ask for the permission."}},
	}
	compare(t, "lint", func(p *view.Printer) { report.Print(p) })
	compare(t, "lint-nothing", func(p *view.Printer) { (&Report{Offline: true}).Print(p) })
}
