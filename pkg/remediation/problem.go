// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nhc-controller/nhc-controller/pkg/apis/remediation/v1alpha1"
	"github.com/nhc-controller/nhc-controller/pkg/remediation/object"
)

// Problem is why a NodeHealthCheck is Disabled: the reason and the message of
// that condition (spec 6.1).
type Problem struct {
	Reason, Message string
}

// NotFound is the problem that the kind of a template, or of its CRs, does not exist. cause says
// why.
func NotFound(cause string) *Problem {
	return &Problem{Reason: v1alpha1.ReasonTemplateNotFound, Message: "Remediation template not found: " + cause}
}

// Missing is the problem that a template does not exist.
func Missing(reference corev1.ObjectReference) *Problem {
	return NotFound(fmt.Sprintf("there is no %s %s", reference.Kind, strings.TrimPrefix(reference.Namespace+"/"+reference.Name, "/")))
}

// Forbidden is the problem that the controller may not do verb on a resource,
// which is that of a template or of CRs.
func Forbidden(verb string, resource schema.GroupResource) *Problem {
	return &Problem{
		Reason: v1alpha1.ReasonTemplateForbidden,
		Message: fmt.Sprintf("Missing permission: cannot %s resource %q in API group %q. Grant it to the controller by a ClusterRole with the label %s: \"true\"",
			verb, resource.Resource, resource.Group, v1alpha1.LabelAggregate),
	}
}

// PlatformForbidden is the problem that the controller may not do verb on a resource of
// OpenShift.
func PlatformForbidden(verb string, resource schema.GroupResource) *Problem {
	return &Problem{
		Reason: v1alpha1.ReasonPlatformForbidden,
		Message: fmt.Sprintf("Missing permission: cannot %s resource %q in API group %q. Grant it to the controller by the overlay manifests/overlays/openshift",
			verb, resource.Resource, resource.Group),
	}
}

// PlatformUnreadable is the problem that a kind of OpenShift cannot be read for any other
// cause. The log knows which.
func PlatformUnreadable(kind schema.GroupVersionKind) *Problem {
	return &Problem{
		Reason:  v1alpha1.ReasonPlatformUnreadable,
		Message: fmt.Sprintf("%s of API group %q cannot be read at the moment", kind.Kind, kind.Group),
	}
}

func invalid(cause string) *Problem {
	return &Problem{
		Reason:  v1alpha1.ReasonTemplateInvalid,
		Message: fmt.Sprintf("Remediation template is invalid: %q", cause),
	}
}

// CheckReference judges a step without the cluster. It returns nil if there is no
// problem, or if the spec itself is invalid.
func CheckReference(step Step) *Problem {
	if step.Incomplete() {
		return nil // A SpecProblem.
	}
	if _, ok := step.RemediationKind(); !ok {
		return invalid(fmt.Sprintf("kind %s of template %s/%s lacks the suffix %s",
			step.Reference.Kind, step.Reference.Namespace, step.Reference.Name, v1alpha1.TemplateKindSuffix))
	}
	return nil
}

// CheckScope judges whether the template can be found in the scope of its kind.
func CheckScope(step Step, namespaced bool) *Problem {
	if namespaced && step.Reference.Namespace == "" {
		return NotFound(fmt.Sprintf("%s is a namespaced kind, but no namespace is provided for %s", step.Reference.Kind, step.Reference.Name))
	}
	return nil
}

// CheckUnique judges whether another step has the same template. If the kind has no
// namespaces, references with different namespaces refer to the same object (spec 4.3, 6.1).
func CheckUnique(steps []Step, step Step, namespaced bool) *Problem {
	if namespaced {
		return nil
	}
	for _, other := range steps {
		if other.Order != step.Order && other.Reference.Name == step.Reference.Name && other.TemplateKind().GroupKind() == step.TemplateKind().GroupKind() {
			return invalid(duplicateTemplate(&step.Reference))
		}
	}
	return nil
}

// CheckRemediationScope judges whether the CRs of a template can have its scope: its
// namespace, or none.
func CheckRemediationScope(step Step, templateNamespaced, remediationNamespaced bool) *Problem {
	if templateNamespaced == remediationNamespaced {
		return nil
	}
	kind, _ := step.RemediationKind()
	return invalid(fmt.Sprintf("kinds %s and %s must both be namespaced or both be cluster-scoped", step.Reference.Kind, kind.Kind))
}

// CheckTemplate judges the template of one of steps.
func CheckTemplate(steps []Step, step Step, template *object.Template) *Problem {
	if template.Spec == nil {
		return invalid(fmt.Sprintf("invalid template %s/%s, didn't find spec.template.spec", template.Namespace, template.Name))
	}
	sameKind := 0
	for _, other := range steps {
		if other.TemplateKind().GroupKind() == step.TemplateKind().GroupKind() {
			sameKind++
		}
	}
	if sameKind > 1 && !template.SupportsMultiple() {
		return invalid(fmt.Sprintf("Using multiple templates of same kind is not supported for this template: %s", step.Reference.Kind))
	}
	return nil
}
