// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	machinev1beta1 "github.com/nhc-controller/nhc-controller/pkg/apis/machine/v1beta1"
	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
)

// Written returns advice about an object in a file, accepted or not. The file may be applied again and again.
func Written(object *unstructured.Unstructured, namespaced bool) []Finding {
	var f findings
	if !namespaced && object.GetNamespace() != "" {
		f.advise("metadata.namespace", "leave it out", "%ss have no namespace: their names are those of the whole cluster", object.GetKind())
	}
	const resume = "leave it out, and pause with kubectl nhc pause"
	if requests, _, _ := unstructured.NestedSlice(object.Object, "spec", "pauseRequests"); object.GetKind() == v1alpha1.Kind && len(requests) > 0 {
		f.advise("spec.pauseRequests", resume, "A pause in a file lasts for ever: if you end it in the cluster, it is back when the file is applied again")
	}
	if _, paused := object.GetAnnotations()[machinev1beta1.AnnotationPaused]; paused && object.GetKind() == machinev1beta1.Kind {
		f.advise("metadata.annotations", "leave the annotation out, and set it in the cluster when it is needed", "A pause in a file lasts for ever: the annotation %s is there again when the file is applied next", machinev1beta1.AnnotationPaused)
	}
	eachText("spec", object.Object["spec"], func(path, text string) {
		if found := placeholder.FindString(text); found != "" {
			f.advise(path, "replace it", "There is still the placeholder %s", found)
		}
	})
	return f
}

// placeholder is text in an example that the reader is to replace.
var placeholder = regexp.MustCompile(`<[A-Za-z][^<>]*>`)

// eachText visits all texts of a value, with their paths.
func eachText(path string, value any, visit func(path, text string)) {
	switch value := value.(type) {
	case string:
		visit(path, value)
	case []any:
		for i, item := range value {
			eachText(fmt.Sprintf("%s[%d]", path, i), item, visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			eachText(path+"."+key, value[key], visit)
		}
	}
}

// NameKeys names the keys and values of selectors that the API server refuses: its words do not.
func (o *Object) NameKeys(object *unstructured.Unstructured) {
	for i := range o.Findings {
		finding, selector := &o.Findings[i], &metav1.LabelSelector{}
		if !strings.Contains(finding.What, "must be a label ") {
			continue
		}
		written, _, _ := unstructured.NestedMap(object.Object, strings.Split(finding.Field, ".")...)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(written, selector) != nil {
			continue
		}
		var wrong []string
		for _, err := range validation.ValidateLabelSelector(selector, validation.LabelSelectorValidationOptions{}, nil) {
			wrong = append(wrong, fmt.Sprintf("%q", err.BadValue))
		}
		finding.Do = "correct " + strings.Join(wrong, ", ")
	}
}

// refused is what the API server says of a value with a wrong type or form.
var refused = regexp.MustCompile(`^Invalid value: (.+): \S+ in body (?:must be of type (\w+): "(\w+)"|should match '(.+)')$`)

// What is wrong with a field that is wrong as a whole.
const (
	noList = "It has to be a list"
	noMap  = "It is a list, and has to have names and values"
)

// plainly says what is wrong with a field, and what to do about it.
func plainly(field, message string) (what, do string) {
	found := refused.FindStringSubmatch(message)
	if found == nil {
		return message, hints[strings.TrimPrefix(message, "Invalid value: ")]
	}
	value, wanted, given, form := found[1], found[2], found[3], found[4]
	lasts := regexp.MustCompile(`(?i)(duration|timeout|delay|interval)$`).MatchString(field)
	switch {
	case wanted == "array":
		return noList, "write a hyphen before each entry"
	case wanted == "object" && given == "array":
		return noMap, "write name: value, without hyphens"
	case wanted == "string" && given == "boolean" && strings.HasSuffix(field, ".status"):
		return "Without quotes it is no text", `write "True" or "False", with the quotes`
	case wanted == "string" && lasts, strings.Contains(form, "ns|us"):
		return "It has no unit", "write numbers with units, such as 300s or 5m"
	case wanted == "string" && given != "object" && given != "array":
		return "Without quotes it is no text", "write it in quotes"
	case strings.Contains(form, "100|"):
		return value + " is no limit", "write a number, or a percentage from 0% to 100%"
	}
	return message, ""
}

// hints say what to do about some things that the API server refuses, by its words.
var hints = map[string]string{
	"Selector is mandatory": "for all nodes, write selector: {matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}",
	"RemediationTemplate and EscalatingRemediations usage is mutual exclusive":      "keep escalatingRemediations, with the template as one of its steps",
	"Either RemediationTemplate or at least one EscalatingRemediations must be set": "name the template of your remediator in remediationTemplate",
	"minHealthy and maxUnhealthy cannot be specified at the same time":              "keep one of them",
}

// elsewhere says where to write fields that are often in a wrong place, or have the name of another API.
var elsewhere = map[string]string{
	"spec.remediationTemplate.order":   stepsHaveIt,
	"spec.remediationTemplate.timeout": stepsHaveIt,
	// Those of the MachineHealthCheck of Cluster API, of v1beta1 and v1beta2.
	"spec.clusterName":             "leave it out: an annotation, " + machinev1beta1.AnnotationMachineAPI + ": " + machinev1beta1.MachineAPICluster + ", selects Machines of Cluster API",
	"spec.checks":                  "use unhealthyConditions, a list with type, status and timeout (such as 300s), and nodeStartupTimeout",
	"spec.remediation":             "use maxUnhealthy and remediationTemplate",
	"spec.unhealthyRange":          "use maxUnhealthy",
	"spec.unhealthyNodeConditions": "use unhealthyConditions, a list with type, status and timeout (such as 300s)",
}

const stepsHaveIt = "use escalatingRemediations, a list whose steps have order, timeout (at least 60s) and remediationTemplate"
