// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// pack writes the chart in dir to a tarball that Helm installs. Helm's own `package` keeps
// the times of the files; here nothing of the machine is kept. The digest of the image
// becomes that of the chart's version.
func pack(dir, image, to string) error {
	names, err := filesIn(dir)
	if err != nil {
		return err
	}
	chart, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return err
	}
	if chart, err = withDigest(dir, chart, image); err != nil {
		return err
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, name := range names {
		content := chart
		if name != "Chart.yaml" {
			if content, err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join("nhc-controller", name), Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, packed.Bytes(), 0o644)
}

// filesIn returns the files below a directory, with slashes, in the order of their names.
func filesIn(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", path)
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// withDigest adds the digest of an image to a Chart.yaml. It has to be the image that the
// chart names.
func withDigest(dir string, chart []byte, image string) ([]byte, error) {
	var metadata struct {
		AppVersion  string
		Annotations map[string]string
	}
	if err := yaml.Unmarshal(chart, &metadata); err != nil {
		return nil, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	var defaults struct{ Image struct{ Repository string } }
	if err := yaml.Unmarshal(content, &defaults); err != nil {
		return nil, fmt.Errorf("reading values.yaml: %w", err)
	}
	name, digest, _ := strings.Cut(image, "@")
	if want := defaults.Image.Repository + ":" + metadata.AppVersion; name != want || !strings.HasPrefix(digest, "sha256:") {
		return nil, fmt.Errorf("the chart names %s, the image with its digest is %s", want, image)
	}
	if len(metadata.Annotations) > 0 {
		return nil, errors.New("the annotations in Chart.yaml are there already")
	}
	return append(bytes.TrimRight(chart, "\n"), "\nannotations:\n  imageDigest: "+digest+"\n"...), nil
}
