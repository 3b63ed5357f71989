// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/view"
)

// Report has the findings.
type Report struct {
	Objects []Object `json:"objects"`
	// Errors and Advice are the numbers of findings.
	Errors int `json:"errors"`
	Advice int `json:"advice"`
	// Offline means that no cluster was asked, because that was wanted.
	Offline bool `json:"offline,omitempty"`
	// Missing is not empty if a part of the cluster could not be read.
	Missing []view.Missing `json:"missing,omitempty"`
}

// Object is an object, or a document that should be one, with its findings.
type Object struct {
	// Source is the file, empty for an object of the cluster.
	Source    string `json:"source,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Skipped means that it is not judged, for a Reason.
	Skipped  bool      `json:"skipped,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Findings []Finding `json:"findings"`

	// Line returns the line of a field in the file. It is nil for an object of the cluster.
	Line func(field string) int `json:"-"`

	// Accepted is the object of its type as it would be stored. It is nil if it would not be.
	Accepted any `json:"-"`
}

// NewAccepted returns an object of a kind that lint is about.
func NewAccepted(object *unstructured.Unstructured) (any, error) {
	accepted := map[string]any{v1alpha1.Kind: &v1alpha1.NodeHealthCheck{}, nhcv1alpha1.BudgetKind: &nhcv1alpha1.RemediationBudget{}, machinev1beta1.Kind: &machinev1beta1.MachineHealthCheck{}}[object.GetKind()]
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, accepted); err != nil {
		return nil, fmt.Errorf("reading the %s: %w", object.GetKind(), err)
	}
	return accepted, nil
}

// Unreadable returns the entry of a document that is no object.
func Unreadable(source, problem string) Object {
	what := strings.ToUpper(problem[:1]) + problem[1:]
	return Object{Source: source, Findings: []Finding{{Severity: Error, What: what}}}
}

// Refuse adds what the API server says of a field, in its words where they are plain.
func (o *Object) Refuse(field, message string) {
	if strings.Contains(message, "some validation rules were not checked") {
		return // The other errors say why.
	}
	what, do := plainly(field, message)
	o.Findings = append(o.Findings, Finding{Severity: Error, Field: field, What: what, Do: do})
}

// RefuseUnknown adds a field that the kind does not have, unless it is part of a field that is wrong as a whole.
func (o *Object) RefuseUnknown(field string) {
	for i := range o.Findings {
		if within := &o.Findings[i]; slices.Contains([]string{noList, noMap}, within.What) && strings.HasPrefix(field, within.Field+".") {
			return
		}
	}
	o.Findings = append(o.Findings, Finding{
		Severity: Error, Field: field, What: fmt.Sprintf("unknown field %q", field),
		Do: cmp.Or(elsewhere[field], "correct the name: kubectl refuses it, and other clients have it dropped silently"),
	})
}

// NewReport adds advice to the objects, which take the place of those of the cluster, and counts what was found.
func NewReport(objects []Object, facts *Facts) *Report {
	for _, object := range objects {
		facts.Apply(object.Accepted)
	}
	report := &Report{Objects: objects, Missing: facts.Missing}
	for i := range objects {
		object := &objects[i]
		switch accepted := object.Accepted.(type) {
		case *v1alpha1.NodeHealthCheck:
			object.Findings = append(object.Findings, NodeHealthCheck(accepted, facts)...)
		case *machinev1beta1.MachineHealthCheck:
			object.Findings = append(object.Findings, MachineHealthCheck(accepted, facts)...)
		case *nhcv1alpha1.RemediationBudget:
			object.Findings = append(object.Findings, RemediationBudget(accepted, facts)...)
		}
		object.Findings = sorted(object.Findings)
		for i := range object.Findings {
			finding := &object.Findings[i]
			if object.Line != nil {
				finding.Line = object.Line(finding.Field)
			}
			if finding.Severity == Error {
				report.Errors++
			} else {
				report.Advice++
			}
		}
	}
	return report
}

// Linted returns the number of objects that lint has judged.
func (r *Report) Linted() int {
	linted := 0
	for i := range r.Objects {
		if !r.Objects[i].Skipped {
			linted++
		}
	}
	return linted
}

// Summary says in one sentence how much was found.
func (r *Report) Summary() string {
	text := fmt.Sprintf("%s in %s", view.Counted(r.Errors, "error"), view.Counted(r.Linted(), "object"))
	if r.Advice > 0 {
		text = fmt.Sprintf("%s and %s in %s", view.Counted(r.Errors, "error"), view.Counted(r.Advice, "piece")+" of advice", view.Counted(r.Linted(), "object"))
	}
	return text + "."
}
