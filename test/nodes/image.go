// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// PodImage is the image of test pods: `write DIRECTORY` makes one a database, see test/nodes/realnode.
const PodImage = "nodes.nhc-controller.io/pod:1"

// packImage writes an archive, as `docker save` does, of an image with nothing but one static program.
func packImage(path, name, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := archive(file{"program", 0o755, binary}, file{"data/", 0o777, nil}, file{"tmp/", 0o1777, nil})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/program"}, "Cmd": []string{"pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	content, err := archive(file{"config.json", 0o644, config}, file{"layer.tar", 0o644, layer}, file{"manifest.json", 0o644, manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// file is an entry of an archive. Without content it is a directory.
type file struct {
	name    string
	mode    int64
	content []byte
}

func archive(files ...file) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return buffer.Bytes(), err
}
