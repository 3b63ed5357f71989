// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Update answers like the API server for a new version of an object of a known kind, or of its status
// alone. Values that the schema refuses in both versions pass. It checks neither policies nor immutable
// metadata.
func (r *Rules) Update(ctx context.Context, old, object *unstructured.Unstructured, status bool) (*Answer, error) {
	rules, err := r.of(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	answer := rules.read(object.DeepCopy())
	if answer.Object == nil {
		return answer, nil
	}
	for _, err := range rules.validateUpdate(ctx, old.Object, answer.Object.Object, status) {
		answer.Causes = append(answer.Causes, causeOf(err))
	}
	return answer, nil
}

// validateUpdate judges a new version by the schema and its rules, in the order of the API server.
func (k *kind) validateUpdate(ctx context.Context, old, object map[string]any, status bool) field.ErrorList {
	correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: k.structural})
	var errs field.ErrorList
	if !status {
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, k.schema, validation.WithRatcheting(correlated))
		errs = append(errs, objectmeta.Validate(ctx, nil, object, k.structural, false)...)
	} else if written, present := object["status"]; present {
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), written, old["status"], k.status, validation.WithRatcheting(correlated.Key("status")))
	}
	if len(listtype.ValidateListSetsAndMaps(nil, k.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	}
	if blocksRules(errs) {
		return append(errs, unchecked)
	}
	violations, _ := k.rules.Validate(ctx, nil, k.structural, object, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlated))
	return append(errs, violations...)
}
