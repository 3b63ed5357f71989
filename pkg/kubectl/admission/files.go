// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// StandardInput is the argument that stands for it.
const StandardInput = "-"

// extensions are those of the files that are read in a directory, as kubectl has them.
var extensions = []string{".json", ".yaml", ".yml"}

// ReadFiles reads files, directories, and standard input for [StandardInput]. In a directory it reads the files with
// the usual extensions, and with recursive also those of its directories. It sets files for kustomize aside.
func ReadFiles(paths []string, recursive bool, standardInput io.Reader) ([]Document, error) {
	var documents []Document
	for _, path := range paths {
		if path == StandardInput {
			documents = append(documents, Read("standard input", standardInput)...)
			continue
		}
		files, err := filesOf(path, recursive)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			file, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			for _, document := range Read(name, file) {
				document.Found = name != path
				documents = append(documents, document)
			}
			file.Close()
		}
	}
	setAside(documents)
	return documents, nil
}

// filesOf returns a file itself, or the files to read in a directory, by name.
func filesOf(path string, recursive bool) ([]string, error) {
	if strings.Contains(path, "://") {
		return nil, fmt.Errorf("%s is no file: download it, or give it with -f -", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != path && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains(extensions, filepath.Ext(name)):
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no files that end in .yaml, .yml or .json", path)
	}
	return files, nil
}

// setAside sets files for kustomize aside: kustomizations, and the patches that they name.
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
