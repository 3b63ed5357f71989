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
