// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission answers like the API server about a new object of ours, without an API server.
// It uses the libraries of the API server and the installed manifests. It contains no rules itself.
package admission

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/nhc-controller/nhc-controller/manifests"
)

// Cause is one reason for a refusal by the API server, in its words.
type Cause struct {
	// Field is the path of the field, empty if the cause is about all of the object.
	Field string
	// Message is what the API server says about the field.
	Message string
}

// Answer is the answer of the API server for an object.
type Answer struct {
	// Object is the object as it would be stored: with defaults, and without unknown fields. It is nil
	// if the object cannot even be read.
	Object *unstructured.Unstructured
	// Unknown are the paths of fields that the kind does not have. kubectl has the API server refuse
	// them; other clients have them dropped silently.
	Unknown []string
	// Causes are why the object is refused, none if it is stored.
	Causes []Cause
	// Namespaced means that objects of the kind are in a namespace.
	Namespaced bool
}

// Rules are the rules of admission for each kind. They are compiled at their first use.
type Rules struct {
	kinds map[schema.GroupKind]func() (*kind, error)
}

// Shipped returns the rules of the manifests. They may be used from any goroutine.
var Shipped = sync.OnceValues(newRules)

func newRules() (*Rules, error) {
	crds, err := Definitions()
	if err != nil {
		return nil, fmt.Errorf("reading the rules of admission: %w", err)
	}
	rules := &Rules{kinds: map[schema.GroupKind]func() (*kind, error){}}
	for _, crd := range crds {
		groupKind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		rules.kinds[groupKind] = sync.OnceValues(func() (*kind, error) { return newKind(crd) })
	}
	return rules, nil
}

// Definitions returns the CustomResourceDefinitions of the manifests.
func Definitions() (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	err = fs.WalkDir(manifests.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(path.Dir(name)) != "crd" {
			return err
		}
		content, err := manifests.Files.ReadFile(name)
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crds = append(crds, crd)
		return yaml.Unmarshal(content, crd)
	})
	return crds, err
}

// Create answers like the API server for a new object of a known kind. What policies refuse is not known here.
func (r *Rules) Create(ctx context.Context, object *unstructured.Unstructured) (*Answer, error) {
	groupVersionKind := object.GroupVersionKind()
	rules, err := r.of(groupVersionKind)
	if err != nil {
		return nil, err
	}
	if groupVersionKind.Version != rules.version {
		want := schema.GroupVersion{Group: groupVersionKind.Group, Version: rules.version}.String()
		return &Answer{Namespaced: rules.namespaced, Causes: []Cause{causeOf(field.Invalid(field.NewPath("apiVersion"), object.GetAPIVersion(), "must be "+want))}}, nil
	}
	object = object.DeepCopy()
	delete(object.Object, "status") // A new object gets none.
	answer := rules.read(object)
	if answer.Object == nil {
		return answer, nil
	}
	for _, err := range rules.validate(ctx, answer.Object) {
		answer.Causes = append(answer.Causes, causeOf(err))
	}
	return answer, nil
}

// of returns the rules about a kind.
func (r *Rules) of(groupVersionKind schema.GroupVersionKind) (*kind, error) {
	compile, known := r.kinds[groupVersionKind.GroupKind()]
	if !known {
		return nil, fmt.Errorf("no rules about %s", groupVersionKind.GroupKind())
	}
	rules, err := compile()
	if err != nil {
		return nil, fmt.Errorf("compiling the rules about %s: %w", groupVersionKind.Kind, err)
	}
	return rules, nil
}

// causeOf is how the API server reports an error: see [k8s.io/apimachinery/pkg/api/errors.NewInvalid].
func causeOf(err *field.Error) Cause {
	cause := Cause{Field: err.Field, Message: err.ErrorBody()}
	if cause.Field == (*field.Path)(nil).String() {
		cause.Field = ""
	}
	return cause
}
