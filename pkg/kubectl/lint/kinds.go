// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	nhcv1alpha1 "github.com/nhc-controller/nhc-controller/pkg/apis/nhc/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// apiVersions are those of the kinds that lint is about.
var apiVersions = map[string]string{
	v1alpha1.Kind: v1alpha1.SchemeGroupVersion.String(), machinev1beta1.Kind: machinev1beta1.SchemeGroupVersion.String(), nhcv1alpha1.BudgetKind: nhcv1alpha1.SchemeGroupVersion.String(),
}

// Kinds are those that lint is about.
var Kinds = slices.Sorted(maps.Keys(apiVersions))

// ours returns our kind for a kind, also if it is written with other letters or in the plural.
func ours(kind string) string {
	for _, known := range Kinds {
		if strings.EqualFold(kind, known) || strings.EqualFold(kind, known+"s") {
			return known
		}
	}
	return ""
}

// Recognize checks whether an object of a file has one of the Kinds. Then both results are empty. Otherwise the
// object has a wrong name for one of the Kinds, or it is skipped for a reason.
func Recognize(object *unstructured.Unstructured) (wrong *Finding, skipped string) {
	group, _, _ := strings.Cut(object.GetAPIVersion(), "/")
	kind := ours(object.GetKind())
	switch {
	case kind == "" && (group == v1alpha1.GroupName || group == nhcv1alpha1.GroupName):
		return &Finding{
			Severity: Error, Field: "kind", What: fmt.Sprintf("There is no kind %q in the group %s", object.GetKind(), group),
			Do: fmt.Sprintf("use %s or %s", v1alpha1.Kind, nhcv1alpha1.BudgetKind),
		}, ""
	case object.GetKind() == "" || object.GetAPIVersion() == "" && kind == "":
		return nil, "it is no Kubernetes object, which has an apiVersion and a kind"
	case kind == "":
		return nil, noRules
	case group == "cluster.x-k8s.io" && kind == machinev1beta1.Kind:
		return &Finding{
			Severity: Error, Field: "apiVersion", What: "This is the kind of Cluster API itself, which nhc-controller does not read",
			Do: fmt.Sprintf("use %s with the annotation %s: %s, or leave these Machines to Cluster API", apiVersions[kind], machinev1beta1.AnnotationMachineAPI, machinev1beta1.MachineAPICluster),
		}, ""
	case group != strings.Split(apiVersions[kind], "/")[0]:
		return &Finding{Severity: Error, Field: "apiVersion", What: fmt.Sprintf("%s is %s, not %q", kind, apiVersions[kind], object.GetAPIVersion()), Do: "correct the apiVersion: nhc-controller reads no other"}, ""
	case kind != object.GetKind():
		return &Finding{Severity: Error, Field: "kind", What: fmt.Sprintf("The kind is %s, not %q", kind, object.GetKind()), Do: "correct the kind"}, ""
	case unrendered(object.Object["spec"]) || unrendered(object.GetName()):
		return nil, "a template has to be rendered first"
	}
	return nil, ""
}

// noRules is why objects of other kinds are skipped.
const noRules = "there are no rules about this kind"

// unrendered reports whether some text in a value is what Helm, Flux or clusterctl replaces.
func unrendered(value any) (found bool) {
	eachText("", value, func(_, text string) {
		found = found || strings.Contains(text, "{{") || strings.Contains(text, "${")
	})
	return found
}

// Skip returns the entry of a document or an object that is skipped for a reason.
func Skip(source, reason string) Object {
	return Object{Source: source, Skipped: true, Reason: reason, Findings: []Finding{}}
}

// OtherKind reports whether an object is skipped because it is of another kind.
func (o *Object) OtherKind() bool { return o.Skipped && o.Reason == noRules }

// SameLine reports whether two skipped objects share a line of the output: one for each file and reason is enough.
func (o *Object) SameLine(other *Object) bool {
	return o.Skipped && other.Skipped && o.Source == other.Source && o.Reason == other.Reason
}
