// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// kind is a served kind with its schema.
type kind struct {
	version    string
	namespaced bool
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// newKind compiles a CustomResourceDefinition with one version, as ours are.
func newKind(crd *apiextensionsv1.CustomResourceDefinition) (*kind, error) {
	if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Schema == nil {
		return nil, fmt.Errorf("%s has not one version with a schema", crd.Name)
	}
	version := &crd.Spec.Versions[0]
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	return &kind{
		version: version.Name, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, structural: structural, schema: validator,
		rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// read prepares an object as the API server does before it judges it: defaults, unknown fields,
// values that are null, and metadata.
func (k *kind) read(object *unstructured.Unstructured) *Answer {
	answer := &Answer{Namespaced: k.namespaced}
	unreadable := func(path *field.Path, value any, err error) *Answer {
		answer.Causes = append(answer.Causes, causeOf(field.Invalid(path, value, err.Error())))
		return answer
	}
	defaulting.Default(object.Object, k.structural)
	metadata := field.NewPath("metadata")
	if _, present := object.Object["metadata"]; !present {
		object.Object["metadata"] = map[string]any{}
	}
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return unreadable(metadata, nil, err)
	}
	answer.Unknown = unknown
	answer.Unknown = append(answer.Unknown, pruning.PruneWithOptions(object.Object, k.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, k.structural)
	fieldErr, unknown := objectmeta.CoerceWithOptions(nil, object.Object, k.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if fieldErr != nil {
		answer.Causes = append(answer.Causes, causeOf(fieldErr))
		return answer
	}
	answer.Unknown = append(answer.Unknown, unknown...)
	k.complete(meta)
	if err := objectmeta.SetObjectMeta(object.Object, meta); err != nil {
		return unreadable(metadata, nil, err)
	}
	answer.Object = object
	return answer
}

// complete sets the fields that a request sets.
func (k *kind) complete(meta *metav1.ObjectMeta) {
	meta.UID = "" // It gets another one.
	switch {
	case !k.namespaced:
		meta.Namespace = ""
	case meta.Namespace == "": // kubectl takes the one of the kubeconfig.
		meta.Namespace = metav1.NamespaceDefault
	}
	if meta.Name == "" && meta.GenerateName != "" {
		meta.Name = meta.GenerateName + "xxxxx"
	}
}

// validate judges an object by the schema and its rules, in the order of the API server.
func (k *kind) validate(ctx context.Context, object *unstructured.Unstructured) field.ErrorList {
	meta, _, err := objectmeta.GetObjectMeta(object.Object, false)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), nil, err.Error())}
	}
	ofMetadata := apivalidation.ValidateObjectMeta(meta, k.namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs := validation.ValidateCustomResource(nil, object.Object, k.schema)
	errs = append(errs, objectmeta.Validate(ctx, nil, object.Object, k.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, object.Object)...)
	if slices.ContainsFunc(errs, func(err *field.Error) bool { return slices.Contains(blocking, err.Type) }) {
		errs = append(errs, unchecked)
	} else {
		violations, _ := k.rules.Validate(ctx, nil, k.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, violations...)
	}
	return append(ofMetadata, errs...)
}

// blocking are the errors after which the API server asks no rules: a value of another type than they
// expect, or so large that they might take too long.
var blocking = []field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}

// unchecked is the message of the API server in that case.
var unchecked = field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")
