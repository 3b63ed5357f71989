// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// MaxSize is how large a file may be. No API server takes an object of that size.
const MaxSize = 16 << 20

// Document is one document of a file, one item of a list in it, or one object in a policy.
type Document struct {
	// Source is the name of the file.
	Source string
	// Found means that the file was found in a directory, and not named.
	Found bool
	// Number is the number of the document in the file, from 1. Items of a list have that of the list.
	Number int
	// Partial means that a policy merges the object into an existing one, which may have the missing fields.
	Partial bool
	// Object has an apiVersion or a kind, and usually both. It is nil if the document is no object.
	Object *unstructured.Unstructured
	// Problem says why the document is no object, empty if it is one.
	Problem string
	// Aside means that the Problem is no fault: the document is not meant for the API server as it
	// is.
	Aside bool

	text *text
	// path is where in the document the object is, empty for all of it.
	path string
}

// NoObject is the Problem of a document that has neither apiVersion nor kind.
const NoObject = "it is no Kubernetes object, which has an apiVersion and a kind"

// Read reads a file. The result has at least one document. Its Problem may say that the file
// has none.
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
	for number, before := 1, 0; ; number++ {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			documents = append(documents, Document{Source: source, Number: number, Problem: oneLine(err)})
			break
		}
		text := &text{source: source, number: number, content: part, before: before}
		documents = append(documents, text.parse()...)
		before += bytes.Count(part, []byte("\n")) + 1
	}
	if len(documents) == 0 {
		return []Document{{Source: source, Number: 1, Problem: "it is empty", Aside: true}}
	}
	return documents
}

// text is a document as it is written.
type text struct {
	source  string
	number  int
	content []byte
	// before is the number of lines of the file before it.
	before int
	// value is what it has, nil if that is no map.
	value map[string]any
	// root has the lines of the fields. It is read when the first one is asked for.
	root *goyaml.Node
}

// document returns a document of the text that is no object.
func (t *text) document(problem string, aside bool) Document {
	return Document{Source: t.source, Number: t.number, Problem: problem, Aside: aside, text: t}
}

// parse returns the objects of one document: none if it is empty, each item of a list.
func (t *text) parse() []Document {
	converted, err := yaml.YAMLToJSONStrict(t.content)
	if err != nil {
		if _, lenient := yaml.YAMLToJSON(t.content); lenient != nil && templated(t.content) {
			return []Document{t.document("a template has to be rendered first", true)}
		}
		return []Document{t.document("it is neither YAML nor JSON: "+t.inFile(oneLine(err)), false)}
	}
	var value any
	if err := json.Unmarshal(converted, &value); err != nil {
		return []Document{t.document("it is neither YAML nor JSON: "+oneLine(err), false)}
	}
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		t.value = value
		if _, encrypted := value["sops"].(map[string]any); encrypted {
			return []Document{t.document("it is encrypted", true)}
		}
		return t.objects(value, "", 0)
	default:
		return []Document{t.document("it is no Kubernetes object, which has fields", true)}
	}
}

// maxNesting is how deep lists may be nested in lists. kubectl makes lists that are not nested.
const maxNesting = 4

// objects returns an object with those of a policy, or the items of a list.
func (t *text) objects(content map[string]any, path string, depth int) []Document {
	document := t.document("", false)
	document.path = path
	apiVersion, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	items, isList := content["items"].([]any)
	if apiVersion == "" || !isList || !strings.HasSuffix(kind, "List") || depth == maxNesting {
		if document.Object = (&unstructured.Unstructured{Object: content}); apiVersion == "" && kind == "" {
			document.Object, document.Problem, document.Aside = nil, NoObject, true
		}
		return append([]Document{document}, t.templates(content, path, depth)...)
	}
	var documents []Document
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", join(path, "items"), i)
		content, ok := item.(map[string]any)
		if !ok {
			document.Problem, document.Aside, document.path = fmt.Sprintf("items[%d] is no Kubernetes object, which has fields", i), true, path
			documents = append(documents, document)
			continue
		}
		documents = append(documents, t.objects(content, path, depth+1)...)
	}
	return documents
}

// templates returns the objects that a policy of Open Cluster Management has in it, except those that it forbids.
func (t *text) templates(policy map[string]any, path string, depth int) (documents []Document) {
	for _, field := range []string{"policy-templates", "object-templates"} {
		items, _, _ := unstructured.NestedSlice(policy, "spec", field) // What is no list has none.
		for i, item := range items {
			template, _ := item.(map[string]any)
			object, _ := template["objectDefinition"].(map[string]any)
			compliance, _ := template["complianceType"].(string)
			if object == nil || depth == maxNesting || strings.EqualFold(compliance, "mustnothave") {
				continue
			}
			found := t.objects(object, join(path, fmt.Sprintf("spec.%s[%d].objectDefinition", field, i)), depth+1)
			for j := range found {
				found[j].Partial = found[j].Partial || strings.EqualFold(compliance, "musthave")
			}
			documents = append(documents, found...)
		}
	}
	return documents
}

// join returns the path of a field.
func join(path, field string) string {
	if path == "" || field == "" || strings.HasPrefix(field, "[") {
		return path + field
	}
	return path + "." + field
}

// oneLine is an error as a part of a sentence.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return strings.TrimRight(text, ".")
}

// Line returns the line of the file with a field of the object, such as spec.steps[0].timeout. If the field is
// missing, it is the line of the deepest existing field above it. For an unreadable document, it is the line of the
// Problem. It is 0 if the line is not known.
func (d *Document) Line(field string) int {
	if found := lineNumber.FindStringSubmatch(d.Problem); found != nil {
		number, _ := strconv.Atoi(found[1])
		return number
	}
	if d.text == nil {
		return 0
	}
	if d.text.root == nil {
		d.text.root = &goyaml.Node{}
		_ = goyaml.Unmarshal(d.text.content, d.text.root) // What cannot be read has no lines.
	}
	if line := lineOf(d.text.root, join(d.path, field)); line > 0 {
		return d.text.before + line
	}
	return 0
}

// lineOf returns the line of a path, or of the deepest existing part of it.
func lineOf(node *goyaml.Node, path string) int {
	if node.Kind == goyaml.DocumentNode && len(node.Content) == 1 {
		node = node.Content[0]
	}
	line := node.Line
	for path != "" {
		if node.Kind == goyaml.AliasNode {
			node = node.Alias
		}
		key, value, rest := child(node, path)
		if value == nil {
			return line
		}
		line, node, path = key.Line, value, rest
	}
	return line
}

// child returns the first part of a path below a node: what names it, its value, and the rest of the path. A key may
// have dots: the longest that fits is meant.
func child(node *goyaml.Node, path string) (key, value *goyaml.Node, rest string) {
	if node.Kind == goyaml.SequenceNode {
		number, after, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i], strings.TrimPrefix(after, ".")
		}
		return nil, nil, ""
	}
	for i := 0; node.Kind == goyaml.MappingNode && i+1 < len(node.Content); i += 2 {
		after, found := strings.CutPrefix(path, node.Content[i].Value)
		fits := found && (after == "" || after[0] == '.' || after[0] == '[')
		if fits && (key == nil || len(after) < len(rest)) {
			key, value, rest = node.Content[i], node.Content[i+1], after
		}
	}
	return key, value, strings.TrimPrefix(rest, ".")
}

// lineNumber is how the library of YAML names a line of a document.
var lineNumber = regexp.MustCompile(`\bline ([0-9]{1,9})\b`)

// inFile returns the problem of a document with the line numbers of the file.
func (t *text) inFile(problem string) string {
	return lineNumber.ReplaceAllStringFunc(problem, func(found string) string {
		number, _ := strconv.Atoi(strings.TrimPrefix(found, "line "))
		return fmt.Sprintf("line %d", t.before+number)
	})
}

// Mentions reports whether a document that cannot be read has one of some words in it.
func (d *Document) Mentions(words []string) bool {
	if d.text == nil {
		return true
	}
	content := bytes.ToLower(d.text.content)
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(content, []byte(strings.ToLower(word))) })
}

// templated reports whether some line that is no comment has a placeholder: an action of a Go template, as for Helm,
// or a variable, as for Flux and clusterctl.
func templated(content []byte) bool {
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if (bytes.Contains(line, []byte("{{")) || bytes.Contains(line, []byte("${"))) && line[0] != '#' {
			return true
		}
	}
	return false
}
