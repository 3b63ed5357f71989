// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// policy is a compiled ValidatingAdmissionPolicy. The package of the API server that does the same
// would make the plugin larger by more than twenty megabytes.
type policy struct {
	name                            string
	conditions, validations, values admissioncel.ConditionEvaluator
	// messages are the fixed messages of validations.
	messages []string
}

// aboutCreation reports whether a policy judges new objects of a resource.
func aboutCreation(policy *admissionregistrationv1.ValidatingAdmissionPolicy, resource schema.GroupVersionResource) bool {
	if policy.Spec.MatchConstraints == nil {
		return false
	}
	has := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, "*")
	}
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		creates := slices.Contains(rule.Operations, admissionregistrationv1.Create) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)
		if creates && has(rule.APIGroups, resource.Group) && has(rule.APIVersions, resource.Version) && has(rule.Resources, resource.Resource) {
			return true
		}
	}
	return false
}

// expression is one of a policy.
type expression struct {
	name, text string
	returns    []*cel.Type
}

// GetExpression implements [admissioncel.ExpressionAccessor].
func (e *expression) GetExpression() string { return e.text }

// ReturnTypes implements [admissioncel.ExpressionAccessor].
func (e *expression) ReturnTypes() []*cel.Type { return e.returns }

// GetName implements [admissioncel.NamedExpressionAccessor].
func (e *expression) GetName() string { return e.name }

var (
	// declared and bound have only the object and the request.
	declared = admissioncel.OptionalVariableDeclarations{}
	bound    = admissioncel.OptionalVariableBindings{}
)

func newPolicy(source *admissionregistrationv1.ValidatingAdmissionPolicy) (*policy, error) {
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, fmt.Errorf("compiling policy %s: %w", source.Name, err)
	}
	var variables []admissioncel.NamedExpressionAccessor
	for _, variable := range source.Spec.Variables {
		variables = append(variables, &expression{variable.Name, variable.Expression, []*cel.Type{cel.AnyType, cel.DynType}})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	var conditions, validations, values []admissioncel.ExpressionAccessor
	compiled := &policy{name: source.Name}
	for _, condition := range source.Spec.MatchConditions {
		conditions = append(conditions, &expression{condition.Name, condition.Expression, []*cel.Type{cel.BoolType}})
	}
	for _, validation := range source.Spec.Validations {
		validations = append(validations, &expression{"", validation.Expression, []*cel.Type{cel.BoolType}})
		values = append(values, &expression{"", cmp.Or(validation.MessageExpression, `""`), []*cel.Type{cel.StringType}})
		compiled.messages = append(compiled.messages, cmp.Or(strings.TrimSpace(validation.Message), "failed expression: "+strings.TrimSpace(validation.Expression)))
	}
	compiled.conditions = compiler.CompileCondition(conditions, declared, environment.StoredExpressions)
	compiled.validations = compiler.CompileCondition(validations, declared, environment.StoredExpressions)
	compiled.values = compiler.CompileCondition(values, declared, environment.StoredExpressions)
	return compiled, nil
}

// judge returns the messages of the validations that a new object breaks. The API server reports
// the first of them.
func (p *policy) judge(ctx context.Context, rules *kind, object *unstructured.Unstructured) ([]string, error) {
	gvk := object.GroupVersionKind()
	attributes := admission.NewAttributesRecord(object, nil, gvk, object.GetNamespace(), object.GetName(), rules.resource, "", admission.Create, nil, true, &user.DefaultInfo{})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(object)}
	request := admissioncel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(rules.resource), metav1.GroupVersionKind(gvk))
	evaluate := func(evaluator admissioncel.ConditionEvaluator) ([]admissioncel.EvaluationResult, error) {
		results, _, err := evaluator.ForInput(ctx, versioned, request, bound, nil, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return nil, fmt.Errorf("evaluating policy %s: %w", p.name, err)
		}
		return results, nil
	}
	conditions, err := evaluate(p.conditions)
	if err != nil {
		return nil, err
	}
	for _, result := range conditions {
		if result.Error == nil && result.EvalResult == types.False {
			return nil, nil
		}
	}
	results, err := evaluate(p.validations)
	if err != nil {
		return nil, err
	}
	values, err := evaluate(p.values)
	if err != nil {
		return nil, err
	}
	var denials []string
	for i, result := range results {
		switch {
		case result.Error != nil:
			denials = append(denials, result.Error.Error())
		case result.EvalResult != types.True:
			denials = append(denials, cmp.Or(computed(values[i]), p.messages[i]))
		}
	}
	return denials, nil
}

// computed is the message that an expression gives, empty if it gives none that the API server
// would use.
func computed(result admissioncel.EvaluationResult) string {
	if result.Error != nil || result.EvalResult == nil {
		return ""
	}
	message, _ := result.EvalResult.Value().(string)
	if message = strings.TrimSpace(message); len(message) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(message, "\n") {
		return ""
	}
	return message
}
