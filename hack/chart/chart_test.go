// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var (
	root   = filepath.Join("..", "..")
	digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)
)

// TestUpToDate: the generated files match the manifests, and every template is generated or
// known to be written by hand.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	files, err := generate(root)
	require.NoError(t, err)
	for name, want := range files {
		content, err := os.ReadFile(filepath.Join(root, chartDir, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(content), "%s is out of date, run hack/update-chart.sh", name)
	}
	for _, dir := range []string{"files", "templates"} {
		entries, err := os.ReadDir(filepath.Join(root, chartDir, dir))
		require.NoError(t, err)
		for _, entry := range entries {
			switch name := dir + "/" + entry.Name(); name {
			case "templates/_helpers.tpl", "templates/NOTES.txt", "templates/deployment.yaml", "templates/dashboard-deployment.yaml", "templates/lease-namespace.yaml", "templates/monitoring.yaml":
			default:
				require.Contains(t, files, name, "it is not generated any more")
			}
		}
	}
}

// TestChartVersion: the chart has the version that is being worked on.
func TestChartVersion(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	release := regexp.MustCompile(`(?m)^RELEASE := v(\S+)$`).FindSubmatch(makefile)
	require.NotNil(t, release)
	content, err := os.ReadFile(filepath.Join(root, chartDir, "Chart.yaml"))
	require.NoError(t, err)
	var chart struct{ Version, AppVersion string }
	require.NoError(t, yaml.Unmarshal(content, &chart))
	require.Equal(t, string(release[1]), chart.Version)
	require.Equal(t, "v"+string(release[1]), chart.AppVersion)
}

// TestTemplateOfManifest: what a template cannot be made of is an error.
func TestTemplateOfManifest(t *testing.T) {
	t.Parallel()
	const object = "kind: ConfigMap\nmetadata:\n  name: a\n"
	for name, tc := range map[string]struct{ manifest, want, wantErr string }{
		"labels are added":    {manifest: object, want: object + labels + allLabels},
		"the namespace":       {manifest: object + "  namespace: nhc-system\n", want: object + "  namespace: {{ .Release.Namespace | quote }}\n" + labels + allLabels},
		"in a comment":        {manifest: "# In nhc-system.\n" + object, want: "# In nhc-system.\n" + object + labels + allLabels},
		"namespace elsewhere": {manifest: object + "data: {a: nhc-system}\n", wantErr: "a namespace is where none is expected"},
		"a template in it":    {manifest: object + "data: {a: '{{ b }}'}\n", wantErr: "special in a template"},
		"no metadata":         {manifest: "kind: ConfigMap\n", wantErr: "no metadata"},
		"several objects":     {manifest: object + "---\n" + object, want: object + labels + allLabels + "---\n" + object + labels + allLabels},
		"a rule is added": {
			manifest: "kind: ClusterRole\nmetadata:\n  name: reader\nrules:\n- own\n---\n" + object,
			want:     "kind: ClusterRole\nmetadata:\n  name: reader\n" + labels + allLabels + "rules:\n- own\n- added\n---\n" + object + labels + allLabels,
		},
		"the label is replaced": {manifest: object + labels + nameLabel + "    a: b\n", want: object + labels + allLabels + "    a: b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := source{manifest: "a.yaml"}.render(tc.manifest, map[string]string{"reader": "- added\n"})
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			head, body, _ := strings.Cut(got, "\n")
			require.Contains(t, head, "from manifests/a.yaml")
			require.Equal(t, tc.want, body)
		})
	}
}

// TestRuleOfPatch: a patch of a component is a rule with a condition, or an error.
func TestRuleOfPatch(t *testing.T) {
	t.Parallel()
	const rule = "- op: add\n  path: /rules/-\n  value:\n    apiGroups: [a]\n    verbs: [get]\n"
	for patched, want := range map[string]string{
		"# Why.\n" + rule:                              "{{- if .Values.a }}\n- apiGroups: [a]\n  verbs: [get]\n{{- end }}\n",
		rule + "- op: remove\n  path: /rules/0\n":      "",
		strings.Replace(rule, "add", "replace", 1):     "",
		strings.Replace(rule, "/rules/-", "/roles", 1): "",
		"no list": "",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(patched), 0o600))
		got, err := patch{manifest: "a.yaml", condition: ".Values.a"}.render(dir)
		require.Equal(t, want, got, patched)
		require.Equal(t, want == "", err != nil, "%s: %v", patched, err)
	}
}

// TestPackChart: two packages are the same, whatever the times of the files, and have every file
// of the chart, and the digest of the image.
func TestPackChart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	chart, first, second := filepath.Join(dir, "chart"), filepath.Join(dir, "first.tgz"), filepath.Join(dir, "second.tgz")
	require.NoError(t, os.CopyFS(chart, os.DirFS(filepath.Join(root, chartDir))))
	content, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	require.NoError(t, err)
	var metadata struct{ AppVersion string }
	require.NoError(t, yaml.Unmarshal(content, &metadata))
	image := "ghcr.io/nhc-controller/nhc-controller:" + metadata.AppVersion + "@" + digest

	require.NoError(t, pack(chart, image, first))
	long := time.Unix(1e9, 0)
	require.NoError(t, os.Chtimes(filepath.Join(chart, "values.yaml"), long, long))
	require.NoError(t, os.Chmod(filepath.Join(chart, "values.yaml"), 0o600))
	require.NoError(t, pack(chart, image, second))
	want, err := os.ReadFile(first)
	require.NoError(t, err)
	got, err := os.ReadFile(second)
	require.NoError(t, err)
	require.Equal(t, want, got)

	names, err := filesIn(chart)
	require.NoError(t, err)
	packed := unpack(t, first)
	require.Len(t, packed, len(names))
	for _, name := range names {
		require.Contains(t, packed, "nhc-controller/"+name)
	}
	require.Equal(t, string(content)+"annotations:\n  imageDigest: "+digest+"\n", packed["nhc-controller/Chart.yaml"])

	for _, other := range []string{"", "ghcr.io/nhc-controller/nhc-controller:v0.0.1@" + digest, strings.TrimSuffix(image, digest)} {
		require.ErrorContains(t, pack(chart, other, second), "the chart names", other)
	}
}

// unpack returns the files in a tarball.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[header.Name] = string(content)
	}
}
