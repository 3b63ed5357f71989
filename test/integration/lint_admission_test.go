// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/command"
	"github.com/nhc-controller/nhc-controller/pkg/kubectl/lint"
)

// lintOffline returns what kubectl nhc lint says of objects without a cluster, in their order.
func lintOffline(t *testing.T, objects []*unstructured.Unstructured) []lint.Object {
	t.Helper()
	var documents, out, errOut bytes.Buffer
	for _, object := range objects {
		content, err := json.Marshal(object)
		require.NoError(t, err)
		documents.WriteString("---\n" + string(content) + "\n")
	}
	environment := command.Environment{
		IOStreams: genericiooptions.IOStreams{In: &documents, Out: &out, ErrOut: &errOut},
		Now:       time.Now, Getenv: func(string) string { return "" },
	}
	require.Equal(t, command.ExitFound, command.Run(t.Context(), environment, []string{"lint", "-f", "-", "--offline", "-o", "json"}))
	require.Contains(t, errOut.String(), "Error: There is something to correct: ")
	var report lint.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.Len(t, report.Objects, len(objects))
	return report.Objects
}

// lintCauses are the errors of an object as the API server reports causes, in order.
func lintCauses(object *lint.Object) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, finding := range object.Findings {
		if finding.Severity == lint.Error {
			causes = append(causes, metav1.StatusCause{Message: finding.What, Field: finding.Field})
		}
	}
	return withoutValues(causes)
}

// fieldsAndMessages are causes as lines, sorted.
func fieldsAndMessages(causes []metav1.StatusCause) (lines []string) {
	for _, cause := range causes {
		lines = append(lines, strings.TrimPrefix(cause.Field, "<nil>")+": "+cause.Message)
	}
	slices.Sort(lines)
	return lines
}

// fieldsOf returns the fields of lines, each once: of types and patterns, lint says in plain words what is wrong.
func fieldsOf(lines []string) (fields []string) {
	for _, line := range lines {
		field, _, _ := strings.Cut(line, ": ")
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// requireLintAgrees requires that lint refuses each object that the API server refuses, for the same fields.
func (a *admission) requireLintAgrees(objects []*unstructured.Unstructured, names []string) {
	a.Helper()
	for i, linted := range lintOffline(a.T, objects) {
		_, err := a.client.Create(a.Context(), objects[i], metav1.CreateOptions{DryRun: dryRun})
		require.Equal(a, fieldsOf(fieldsAndMessages(a.causes(err))), fieldsOf(fieldsAndMessages(lintCauses(&linted))), names[i])
		require.Equal(a, err == nil, !slices.ContainsFunc(linted.Findings, func(f lint.Finding) bool { return f.Severity == lint.Error }), names[i])
	}
}

// testLintOfSpecs: lint and the API server agree about every NodeHealthCheck of the table.
func testLintOfSpecs(a *admission) {
	names := slices.Sorted(maps.Keys(specRules))
	var objects []*unstructured.Unstructured
	for _, name := range names {
		objects = append(objects, a.object("created", a.spec(specRules[name].base, specRules[name].changes)))
	}
	a.requireLintAgrees(objects, names)
	a.requireSameUnknownFields()
}

// requireSameUnknownFields requires that lint and the API server, asked as kubectl asks it, find the
// same fields that a kind does not have.
func (a *admission) requireSameUnknownFields() {
	a.Helper()
	object := a.object("created", a.spec(classicSpec, `{minHealth: 1, pauseRequest: [], remediationTemplate: {version: v1}, unhealthyConditions: [{type: a, status: "True", duration: 5m, timeout: 5m}]}`))
	require.NoError(a, unstructured.SetNestedField(object.Object, "b", "metadata", "label"))
	_, err := a.client.Create(a.Context(), object, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	require.True(a, apierrors.IsBadRequest(err), "%v", err)
	_, unknown, _ := strings.Cut(err.Error(), "strict decoding error: ")
	var found []string
	for _, cause := range lintCauses(&lintOffline(a.T, []*unstructured.Unstructured{object})[0]) {
		found = append(found, cause.Message)
	}
	require.ElementsMatch(a, strings.Split(unknown, ", "), found)
}

// testLintOfBudgets: lint and the API server agree about every RemediationBudget of the table.
func testLintOfBudgets(a *budgetAdmission) {
	names := slices.Sorted(maps.Keys(budgetRules))
	var objects []*unstructured.Unstructured
	for _, name := range names {
		objects = append(objects, a.object("created", a.budget(budgetRules[name].changes)))
	}
	a.requireLintAgrees(objects, names)
}

// testLintOfMHCs: lint and the API server agree about every MachineHealthCheck of the table. What a policy denies, lint says
// in the words of the controller, which differ for selectors.
func testLintOfMHCs(a *mhcAdmission) {
	names := slices.Sorted(maps.Keys(mhcRules))
	var objects []*unstructured.Unstructured
	for _, name := range names {
		object := a.mhc("created", mhcRules[name].annotations, mhcRules[name].spec)
		object.SetNamespace(machineNamespace)
		objects = append(objects, object)
	}
	for i, linted := range lintOffline(a.T, objects) {
		denial, causes := a.create(objects[i]), lintCauses(&linted)
		if byPolicy := mhcRules[names[i]].own == "" && denial != ""; byPolicy {
			require.Len(a, causes, 1, names[i])
			if !strings.HasPrefix(denial, "Invalid selector") && names[i] != "beyond 32 bits" {
				require.Equal(a, denial, strings.TrimSpace(causes[0].Message), names[i])
			}
			continue
		}
		var denials []string
		if denial != "" {
			denials = strings.Split(denial, "; ")
		}
		require.Equal(a, fieldsOf(denials), fieldsOf(fieldsAndMessages(causes)), names[i])
	}
}
