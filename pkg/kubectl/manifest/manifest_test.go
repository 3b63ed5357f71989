// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
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
	const noObject = "it is no Kubernetes object, which has an apiVersion and a kind"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":            {"", []string{"it is empty"}},
		"only comments":      {"# a\n---\n# b\n", []string{"it is empty"}},
		"documents":          {"apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n\n---\napiVersion: v1\nkind: B\n", []string{"A a", "B "}},
		"JSON":               {`{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}`, []string{"A a"}},
		"a list":             {`{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A}, {apiVersion: v1, kind: BList, items: [{apiVersion: v1, kind: B}]}, 3, {a: b}]}`, []string{"A ", "B ", "items[2] is no Kubernetes object, which has fields", noObject}},
		"a list of nothing":  {`{apiVersion: v1, kind: List, items: []}`, []string{"it is empty"}},
		"lists in lists":     {strings.Repeat(`{apiVersion: v1, kind: List, items: [`, 20) + strings.Repeat("]}", 20), []string{"List "}},
		"items of something": {`{apiVersion: v1, kind: ConfigMap, items: [a]}`, []string{"ConfigMap "}},
		"no kind":            {"a: b", []string{noObject}},
		"a kind of nothing":  {"apiVersion: v1\nkind: 3", []string{noObject}},
		"text":               {"hello", []string{"it is no Kubernetes object, which has fields"}},
		"a sequence":         {"- a", []string{"it is no Kubernetes object, which has fields"}},
		"no YAML":            {"a: [", []string{"it is neither YAML nor JSON: line 1: did not find expected node content"}},
		"the same key twice": {"apiVersion: v1\nkind: A\nkind: B", []string{`it is neither YAML nor JSON: line 3: key "kind" already set in map`}},
		"a template":         {"a: {{ .Values.a }}\nb: {{- x }}", []string{"it is neither YAML nor JSON: "}},
		"the next document":  {"a: [\n---\napiVersion: v1\nkind: A", []string{"it is neither YAML nor JSON: line 1: did not find expected node content", "A "}},
	} {
		got := summary(Read("a.yaml", strings.NewReader(tc.text)))
		if name == "a template" {
			require.Len(t, got, 1, name)
			require.True(t, strings.HasPrefix(got[0], tc.want[0]) && strings.HasSuffix(got[0], "; a template has to be rendered first"), got[0])
			continue
		}
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

// FuzzRead: there is an answer to any bytes, and what is an object has a kind.
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
				require.NotEmpty(t, document.Object.GetKind())
				require.NotEmpty(t, document.Object.GetAPIVersion())
			}
		}
	})
}
