// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package memapi

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/nhc-controller/nhc-controller/pkg/kubectl/admission"
)

// crdSchema is the schema of a kind, and that of its status alone, which is judged when it is written.
type crdSchema struct {
	structural    *structuralschema.Structural
	whole, status validation.SchemaValidator
	rules         *cel.Validator
}

// shippedSchemas are those of the kinds that manifests define.
var shippedSchemas = sync.OnceValues(func() (map[schema.GroupKind]*crdSchema, error) {
	schemas := map[schema.GroupKind]*crdSchema{}
	crds, err := admission.Definitions()
	if err != nil {
		return nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	for _, crd := range crds {
		compiled, err := newCRDSchema(&crd.Spec.Versions[0])
		if err != nil {
			return nil, err
		}
		schemas[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = compiled
	}
	return schemas, nil
})

func newCRDSchema(version *apiextensionsv1.CustomResourceDefinitionVersion) (*crdSchema, error) {
	var internal apiextensions.CustomResourceValidation
	err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, &internal, nil)
	if err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, structuralErr := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	whole, _, wholeErr := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	ofStatus := internal.OpenAPIV3Schema.Properties["status"]
	status, _, statusErr := validation.NewSchemaValidator(&ofStatus)
	if err := errors.Join(structuralErr, wholeErr, statusErr); err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	return &crdSchema{structural: structural, whole: whole, status: status, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// update answers like the API server for a new version of an object, or of its status alone. Values that the
// schema refuses in both versions pass. It checks neither policies nor immutable metadata.
func (k *crdSchema) update(old, object *unstructured.Unstructured, status bool) *admission.Answer {
	object = object.DeepCopy()
	defaulting.Default(object.Object, k.structural)
	pruning.Prune(object.Object, k.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, k.structural)
	answer := &admission.Answer{Object: object}
	for _, err := range k.validate(old.Object, object.Object, status) {
		answer.Causes = append(answer.Causes, admission.Cause{Field: err.Field, Message: err.ErrorBody()})
	}
	return answer
}

// blocking are the errors after which the API server asks no rules.
var blocking = []field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}

// validate judges a new version by the schema and its rules, in the order of the API server.
func (k *crdSchema) validate(old, object map[string]any, status bool) field.ErrorList {
	correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: k.structural})
	var errs field.ErrorList
	if !status {
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, k.whole, validation.WithRatcheting(correlated))
		errs = append(errs, objectmeta.Validate(unbounded, nil, object, k.structural, false)...)
	} else if written, present := object["status"]; present {
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), written, old["status"], k.status, validation.WithRatcheting(correlated.Key("status")))
	}
	if len(listtype.ValidateListSetsAndMaps(nil, k.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	}
	if slices.ContainsFunc(errs, func(err *field.Error) bool { return slices.Contains(blocking, err.Type) }) {
		return errs
	}
	violations, _ := k.rules.Validate(unbounded, nil, k.structural, object, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlated))
	return append(errs, violations...)
}
