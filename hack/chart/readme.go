// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is what the table of values needs of a schema.
type schema struct {
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
}

// valuesHeading is what the table of values follows, up to the end of the README.
const valuesHeading = "## Values\n"

// longestDefault is how long a default may be to fit into the table.
const longestDefault = 60

// readme returns the README of the chart with the table of values: from the schema, with the defaults of
// values.yaml.
func readme(chart string) ([]byte, error) {
	var (
		root   schema
		values map[string]any
	)
	for name, target := range map[string]any{"values.schema.json": &root, "values.yaml": &values} {
		content, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(content, target); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	content, err := os.ReadFile(filepath.Join(chart, "README.md"))
	if err != nil {
		return nil, err
	}
	before, _, found := strings.Cut(string(content), valuesHeading)
	if !found {
		return nil, fmt.Errorf("the README of the chart has no heading %q", valuesHeading)
	}
	delete(root.Properties, "global") // Every chart has it. This one does not use it.
	rows, err := root.rows("", values)
	if err != nil {
		return nil, err
	}
	return []byte(before + valuesHeading + "\n| value | default | |\n|---|---|---|\n" + strings.Join(rows, "")), nil
}

// rows returns a row for each value without values of its own.
func (s schema) rows(prefix string, defaults any) ([]string, error) {
	children, _ := defaults.(map[string]any)
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property, path := s.Properties[name], prefix+name
		if property.Description == "" {
			if len(property.Properties) == 0 {
				return nil, fmt.Errorf("the schema of the values does not describe %s", path)
			}
			below, err := property.rows(path+".", children[name])
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
			continue
		}
		value, err := json.Marshal(children[name])
		if err != nil {
			return nil, err
		}
		text := "`" + string(value) + "`"
		if len(value) > longestDefault {
			text = "see values.yaml"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", path, text, property.Description))
	}
	return rows, nil
}
