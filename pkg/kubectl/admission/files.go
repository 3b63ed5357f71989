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

// ReadFiles reads files, directories, and for [StandardInput] what is given as such. Of a directory
// it reads the files with the usual extensions, and those of its directories if it is recursive. What is written for
// kustomize is set aside.
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

// filesOf returns a file itself, and what is to be read of a directory, by name.
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
