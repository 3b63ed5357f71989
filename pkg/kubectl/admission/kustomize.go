// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// setAside sets aside what is written for kustomize: kustomizations, and the patches that they name.
func setAside(documents []Document) {
	patches := map[string]string{}
	for i := range documents {
		document := &documents[i]
		if document.text == nil || !isKustomization(document) {
			continue
		}
		for _, patch := range document.text.patches() {
			patches[filepath.Join(filepath.Dir(document.Source), patch)] = document.Source
		}
		document.Object, document.Aside = nil, true
		document.Problem = "it is a kustomization, which has to be built first"
	}
	for i := range documents {
		document := &documents[i]
		if kustomization, ok := patches[filepath.Clean(document.Source)]; ok {
			document.Object, document.Aside = nil, true
			document.Problem = fmt.Sprintf("it is a patch of %s, which has to be built first", kustomization)
		}
	}
}

// isKustomization judges by the name that kustomize looks for, and by the group of its kinds.
func isKustomization(document *Document) bool {
	if slices.Contains([]string{"kustomization.yaml", "kustomization.yml"}, filepath.Base(document.Source)) {
		return true
	}
	return document.Object != nil && strings.HasPrefix(document.Object.GetAPIVersion(), "kustomize.config.k8s.io/")
}

// patches returns the files that a kustomization names as patches. Other texts among them name no file.
func (t *text) patches() (files []string) {
	for _, field := range []string{"patches", "patchesStrategicMerge", "patchesJson6902"} {
		list, _ := t.value[field].([]any)
		for _, entry := range list {
			path, _ := entry.(string)
			if fields, ok := entry.(map[string]any); ok {
				path, _ = fields["path"].(string)
			}
			if path != "" {
				files = append(files, path)
			}
		}
	}
	return files
}
