// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Line returns the line of the file that has a field of the object, such as spec.steps[0].timeout: the one of the
// deepest field above it that is there, or of what cannot be read the line of the Problem. It is 0 if the line is not known.
func (d *Document) Line(field string) int {
	if found := lineNumber.FindStringSubmatch(d.Problem); found != nil {
		number, _ := strconv.Atoi(found[1])
		return number
	}
	if d.text == nil {
		return 0
	}
	if d.text.root == nil {
		d.text.root = &yaml.Node{}
		_ = yaml.Unmarshal(d.text.content, d.text.root) // What cannot be read has no lines.
	}
	if line := lineOf(d.text.root, join(d.path, field)); line > 0 {
		return d.text.before + line
	}
	return 0
}

// lineOf returns the line of a path, or of what is deepest on the way to it.
func lineOf(node *yaml.Node, path string) int {
	if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
		node = node.Content[0]
	}
	line := node.Line
	for path != "" {
		if node.Kind == yaml.AliasNode {
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
func child(node *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	if node.Kind == yaml.SequenceNode {
		number, after, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i], strings.TrimPrefix(after, ".")
		}
		return nil, nil, ""
	}
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
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

// inFile returns what is wrong with a document with the numbers of the lines in the file.
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
	for _, word := range words {
		if bytes.Contains(content, []byte(strings.ToLower(word))) {
			return true
		}
	}
	return false
}

// templated reports whether some line that is no comment has what a tool replaces: an action of a Go template, as Helm
// has them, or a variable, as Flux and clusterctl have them.
func templated(content []byte) bool {
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if (bytes.Contains(line, []byte("{{")) || bytes.Contains(line, []byte("${"))) && line[0] != '#' {
			return true
		}
	}
	return false
}
