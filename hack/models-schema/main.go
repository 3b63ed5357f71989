// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command models-schema prints the OpenAPI definitions of this project's API as
// one Swagger document. The generator of the apply configurations turns it into
// the schema by which clients, the fake one among them, merge applied fields.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nhc-controller/nhc-controller/pkg/generated/openapi"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "models-schema:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	models := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		if strings.Contains(name, "/") { // Still a Go name; model names have no slash.
			name = util.ToRESTFriendlyName(name)
		}
		return spec.MustCreateRef("#/definitions/" + name)
	})
	definitions := make(spec.Definitions, len(models)+1)
	for name, model := range models {
		definitions[name] = schemaOf(model)
	}
	definitions[corev1.ObjectReference{}.OpenAPIModelName()] = objectReference()

	document := spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "nhc-controller", Version: "v1alpha1"}},
		Definitions: definitions,
	}}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("encoding the definitions: %w", err)
	}
	return nil
}

// schemaOf prefers the form of a model that is meant for OpenAPI v2: types like
// IntOrString are a union in v3, which the generator cannot read.
func schemaOf(model common.OpenAPIDefinition) spec.Schema {
	if v2, ok := model.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
		return v2
	}
	return model.Schema
}

// objectReference is the model of corev1.ObjectReference, a flat list of
// strings. It is the only type of its package in our API, and generating the
// models of all of core/v1 for it would add some twenty thousand lines.
func objectReference() spec.Schema {
	properties := map[string]spec.Schema{}
	for field := range reflect.TypeFor[corev1.ObjectReference]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		properties[name] = *spec.StringProperty()
	}
	return spec.Schema{
		SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties},
		VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{
			"x-kubernetes-map-type": "atomic",
		}},
	}
}
