// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// entrypoint is what runs, unless a pod names another of the binaries.
	entrypoint = "nhc-controller"
	// user runs the controller, as manifests/base/deployment.yaml says, too.
	user = "65532:65532"
	// maxCompressed is the most that an image for one architecture may have.
	maxCompressed = 40_000_000
)

// binaries are the binaries of an image, in the order of their names.
var binaries = []string{entrypoint, "nhc-dashboard"}

// release is what all images of a release have in common.
type release struct {
	tag      name.Tag
	version  string
	revision string // Empty if it is not known.
	created  time.Time
}

// platform is the image for one architecture, and a bill of materials for each of its binaries.
type platform struct {
	architecture string
	image        v1.Image
	sboms        [][]byte // CycloneDX, as JSON.
}

func readPlatform(r release, dir, architecture string) (platform, error) {
	p := platform{architecture: architecture}
	var files []file
	for _, name := range binaries {
		binary, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return platform{}, err
		}
		sbom, err := os.ReadFile(filepath.Join(dir, name+".cdx.json"))
		if err != nil {
			return platform{}, err
		}
		files, p.sboms = append(files, file{name: name, content: binary}), append(p.sboms, sbom)
	}
	image, err := newImage(r, architecture, files)
	p.image = image
	return p, err
}

// file is one in an image.
type file struct {
	name    string
	content []byte
}

// newImage returns an image with nothing in it but the files, which belong to root and
// are read-only.
func newImage(r release, architecture string, files []file) (v1.Image, error) {
	layer, err := newLayer(r.created, files)
	if err != nil {
		return nil, err
	}
	base := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	base = mutate.ConfigMediaType(base, types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: architecture,
		OS:           "linux",
		Created:      v1.Time{Time: r.created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{"/" + entrypoint},
			WorkingDir: "/",
			Labels:     r.labels(),
		},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "hack/image"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, r.labels()).(v1.Image), nil
}

func newLayer(created time.Time, files []file) (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.name,
			Size:     int64(len(f.content)),
			Mode:     0o555,
			ModTime:  created,
			Format:   tar.FormatUSTAR,
		})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
}

// labels returns the labels of an image, which are its annotations, too: the first four
// are those in the Dockerfile.
func (r release) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "nhc-controller",
		"org.opencontainers.image.description": "Has unhealthy Nodes of a Kubernetes cluster repaired",
		"org.opencontainers.image.source":      "https://github.com/nhc-controller/nhc-controller",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
	}
	if r.revision != "" {
		labels["org.opencontainers.image.revision"] = r.revision
	}
	return labels
}

// compressedSize returns how much a node pulls.
func compressedSize(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}
