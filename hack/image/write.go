// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeLayout writes an index to a directory, and replaces its content. Tools find it by
// its tag, containerd by its whole name.
func writeLayout(r release, index v1.ImageIndex, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.tag.TagStr(),
		"io.containerd.image.name":          r.tag.String(),
	}))
}

// writeArchive writes the files below a directory to a tarball, in the order of their
// names, without anything that differs from one machine to the next.
func writeArchive(dir, path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return archive(w, dir, path, entry)
	})
	return errors.Join(err, w.Close())
}

func archive(w *tar.Writer, dir, path string, entry fs.DirEntry) error {
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	relative = filepath.ToSlash(relative)
	if entry.IsDir() {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: relative + "/", Mode: 0o755, Format: tar.FormatUSTAR})
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: relative, Size: info.Size(), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(w, content)
	return err
}

// writeDocker writes the image for one architecture to a tarball that docker load reads.
func writeDocker(r release, image v1.Image, path string) error {
	return tarball.WriteToFile(path, r.tag, image)
}
