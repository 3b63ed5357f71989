// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads Kubernetes objects from files: YAML with any number of documents, JSON,
// and lists. There is an answer to any bytes.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// MaxSize is how large a file may be. No API server takes an object of that size.
const MaxSize = 16 << 20

// Document is what one document of a file, or one item of a list in it, has.
type Document struct {
	// Source is the name of the file.
	Source string
	// Number is the number of the document in the file, from 1. Items of a list have that of the list.
	Number int
	// Object has an apiVersion and a kind. It is nil if the document is no object.
	Object *unstructured.Unstructured
	// Problem says why the document is no object, empty if it is one.
	Problem string
}

// Read reads a file. The result has at least one document, which may say that there is none.
func Read(source string, file io.Reader) []Document {
	content, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	switch {
	case err != nil:
		return []Document{{Source: source, Number: 1, Problem: "it cannot be read: " + err.Error()}}
	case len(content) > MaxSize:
		return []Document{{Source: source, Number: 1, Problem: fmt.Sprintf("it has more than %d MiB", MaxSize>>20)}}
	}
	var documents []Document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			documents = append(documents, Document{Source: source, Number: number, Problem: oneLine(err)})
			break
		}
		documents = append(documents, parse(source, number, text)...)
	}
	if len(documents) == 0 {
		return []Document{{Source: source, Number: 1, Problem: "it is empty"}}
	}
	return documents
}

// parse returns what one document has: nothing if it is empty, and each item of a list.
func parse(source string, number int, text []byte) []Document {
	problem := func(format string, args ...any) []Document {
		return []Document{{Source: source, Number: number, Problem: fmt.Sprintf(format, args...)}}
	}
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		advice := ""
		if bytes.Contains(text, []byte("{{")) {
			advice = "; a template has to be rendered first"
		}
		return problem("it is neither YAML nor JSON: %s%s", oneLine(err), advice)
	}
	var value any
	if err := json.Unmarshal(converted, &value); err != nil {
		return problem("it is neither YAML nor JSON: %s", oneLine(err))
	}
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		return objects(source, number, value, 0)
	default:
		return problem("it is no Kubernetes object, which has fields")
	}
}

// maxNesting is how deep lists may be nested in lists. kubectl makes lists that are not nested.
const maxNesting = 4

// objects returns an object, or the items of a list.
func objects(source string, number int, content map[string]any, depth int) []Document {
	document := Document{Source: source, Number: number}
	apiVersion, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	if apiVersion == "" || kind == "" {
		document.Problem = "it is no Kubernetes object, which has an apiVersion and a kind"
		return []Document{document}
	}
	items, isList := content["items"].([]any)
	if !isList || !strings.HasSuffix(kind, "List") || depth == maxNesting {
		document.Object = &unstructured.Unstructured{Object: content}
		return []Document{document}
	}
	var documents []Document
	for i, item := range items {
		content, ok := item.(map[string]any)
		if !ok {
			documents = append(documents, Document{Source: source, Number: number, Problem: fmt.Sprintf("items[%d] is no Kubernetes object, which has fields", i)})
			continue
		}
		documents = append(documents, objects(source, number, content, depth+1)...)
	}
	return documents
}

// oneLine is an error as a part of a sentence.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return strings.TrimRight(text, ".")
}
