// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// summary is what documents have: names of objects, and problems.
func summary(documents []Document) (lines []string) {
	for _, document := range documents {
		if document.Object != nil {
			lines = append(lines, document.Object.GetKind()+" "+document.Object.GetName())
			continue
		}
		lines = append(lines, document.Problem)
	}
	return lines
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":              {"", []string{"it is empty"}},
		"only comments":        {"# a\n---\n# b\n", []string{"it is empty"}},
		"documents":            {"apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n\n---\napiVersion: v1\nkind: B\n", []string{"A a", "B "}},
		"JSON":                 {`{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}`, []string{"A a"}},
		"a list":               {`{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A}, {apiVersion: v1, kind: BList, items: [{apiVersion: v1, kind: B}]}, 3, {a: b}]}`, []string{"A ", "B ", "items[2] is no Kubernetes object, which has fields", NoObject}},
		"a list of nothing":    {`{apiVersion: v1, kind: List, items: []}`, []string{"it is empty"}},
		"lists in lists":       {strings.Repeat(`{apiVersion: v1, kind: List, items: [`, 20) + strings.Repeat("]}", 20), []string{"List "}},
		"items of something":   {`{apiVersion: v1, kind: ConfigMap, items: [a]}`, []string{"ConfigMap "}},
		"no kind":              {"a: b", []string{NoObject}},
		"a kind of nothing":    {"apiVersion: v1\nkind: 3", []string{" "}},
		"text":                 {"hello", []string{"it is no Kubernetes object, which has fields"}},
		"a sequence":           {"- a", []string{"it is no Kubernetes object, which has fields"}},
		"no YAML":              {"a: [", []string{"it is neither YAML nor JSON: line 1: did not find expected node content"}},
		"the same key twice":   {"apiVersion: v1\nkind: A\nkind: B", []string{`it is neither YAML nor JSON: line 3: key "kind" already set in map`}},
		"a template":           {"# {{\na: {{ .Values.a }}\nb: {{- x }}", []string{"a template has to be rendered first"}},
		"twice, in a template": {"a: '{{ x }}'\nkind: A\nkind: B", []string{`it is neither YAML nor JSON: line 3: key "kind" already set in map`}},
		"braces in a comment":  {" # {{\na: [", []string{"it is neither YAML nor JSON: line 2: did not find expected node content"}},
		"twice, further down":  {"kind: A\n---\n\nkind: A\nkind: B", []string{"A ", `it is neither YAML nor JSON: line 5: key "kind" already set in map`}},
		"encrypted":            {"apiVersion: v1\nkind: A\nsops: {mac: a}", []string{"it is encrypted"}},
		"references":           {`{apiVersion: v1, kind: P, metadata: {ownerReferences: [{apiVersion: v1, kind: A, name: a}]}, a: {kind: A, spec: {}}}`, []string{"P "}},
		"the next document":    {"a: [\n---\napiVersion: v1\nkind: A", []string{"it is neither YAML nor JSON: line 1: did not find expected node content", "A "}},
	} {
		got := summary(Read("a.yaml", strings.NewReader(tc.text)))
		require.Equal(t, tc.want, got, name)
	}
	require.Equal(t, []string{"it cannot be read: no disk"}, summary(Read("a", iotest.ErrReader(errors.New("no disk")))))
	require.Equal(t, []string{"it has more than 16 MiB"}, summary(Read("a", strings.NewReader(strings.Repeat("0", MaxSize+1)))))
}

func TestReadFiles(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	write := func(name string) {
		path := filepath.Join(directory, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("{apiVersion: v1, kind: A, metadata: {name: "+filepath.Base(name)+"}}"), 0o600))
	}
	for _, name := range []string{"a.yaml", "b.yml", "c.json", "readme.md", "deep/d.yaml", "none/readme.md"} {
		write(name)
	}
	read := func(recursive bool, paths ...string) []string {
		documents, err := ReadFiles(paths, recursive, strings.NewReader("{apiVersion: v1, kind: B}"))
		require.NoError(t, err)
		return summary(documents)
	}
	require.Equal(t, []string{"A a.yaml", "A b.yml", "A c.json"}, read(false, directory))
	require.Equal(t, []string{"A a.yaml", "A b.yml", "A c.json", "A d.yaml"}, read(true, directory))
	require.Equal(t, []string{"A readme.md", "B "}, read(false, filepath.Join(directory, "readme.md"), StandardInput))
	_, err := ReadFiles([]string{filepath.Join(directory, "none")}, false, nil)
	require.ErrorContains(t, err, "has no files that end in .yaml, .yml or .json")
	_, err = ReadFiles([]string{filepath.Join(directory, "missing")}, false, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestLine: a field has its line of the file, and a missing field that of the field above it.
func TestLine(t *testing.T) {
	t.Parallel()
	const file = `# a comment
---
kind: A
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: B
  metadata:
    labels: {a.b/c: d}
  spec:
    steps:
    - timeout: 3s
    - &step
      timeout: 4s
    - *step
---
apiVersion: v1
kind: Policy
templates:
- definition: {apiVersion: v1, kind: C,
    spec: {a: b}}
---
a: [
`
	documents := Read("a.yaml", strings.NewReader(file))
	require.Len(t, documents, 4)
	for field, want := range map[string]int{
		"": 8, "spec": 12, "spec.missing": 12, "spec.steps[0].timeout": 14, "spec.steps[1].timeout": 16, "spec.steps[2].timeout": 16,
		"spec.steps[3].timeout": 13, "spec.steps[x]": 13, "kind": 9, "metadata.labels.a.b/c": 11, "kin": 8,
	} {
		require.Equal(t, want, documents[1].Line(field), field)
	}
	require.Equal(t, []int{3, 21}, []int{documents[0].Line("kind"), documents[2].Line("templates")})
	require.Equal(t, "it is neither YAML nor JSON: line 25: did not find expected node content", documents[3].Problem)
	require.Zero(t, (&Document{}).Line("spec"))
}

// TestKustomize: kustomizations and the patches that they name are set aside, wherever these are.
func TestKustomize(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	for name, content := range map[string]string{
		"base/kustomization.yaml": "resources: [a.yaml]\npatchesStrategicMerge: [old.yaml, '{kind: A}']\npatchesJson6902: [{path: json.yaml, target: {kind: A}}]",
		"base/a.yaml":             "kind: A", "base/old.yaml": "kind: A", "base/json.yaml": "[{op: add}]",
		"over/k.yaml":    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Component\npatches: [{path: ../patches/a.yaml}, {patch: 'kind: A'}, 3]",
		"patches/a.yaml": "kind: A\n---\nkind: B", "patches/b.yaml": "kind: B",
	} {
		path := filepath.Join(directory, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	documents, err := ReadFiles([]string{directory}, true, nil)
	require.NoError(t, err)
	aside := func(file string) string {
		return "it is a patch of " + filepath.Join(directory, file) + ", which has to be built first"
	}
	const kustomization = "it is a kustomization, which has to be built first"
	require.Equal(t, []string{
		"A ", aside("base/kustomization.yaml"), kustomization, aside("base/kustomization.yaml"), kustomization, aside("over/k.yaml"), aside("over/k.yaml"), "B ",
	}, summary(documents))
}

// FuzzRead: there is an answer to any bytes, and an object has a kind.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "a: b", "apiVersion: v1\nkind: A\n---\nkind: [", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"A"},null]}`,
		"a: &a [*a]", "a: &a [b, b]\nc: &c [*a, *a]\nd: [*c, *c]", "--- >\n\x00\xff", "? [a]\n: b", "!!binary a", "1e999", "a: .nan\napiVersion: v1\nkind: A", "{apiVersion: v1, kind: A, 3: 4}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		documents := Read("fuzz", strings.NewReader(string(content)))
		require.NotEmpty(t, documents)
		for _, document := range documents {
			require.NotEqual(t, document.Object == nil, document.Problem == "", "either an object, or a problem")
			require.NotContains(t, document.Problem, "\n")
			if document.Object != nil {
				require.NotEmpty(t, document.Object.GetKind()+document.Object.GetAPIVersion())
				require.LessOrEqual(t, document.Line("spec"), bytes.Count(content, []byte("\n"))+1)
			}
		}
	})
}
