// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Media types of the OCI image specification, and of in-toto.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	typeInToto   = "application/vnd.in-toto+json"
)

// The types here are read with encoding/json, and not with the library that writes
// them: the layout has to be right by the specification.

type descriptor struct {
	MediaType   string
	Digest      string
	Size        int64
	Platform    struct{ OS, Architecture string }
	Annotations map[string]string
}

// manifest is that of an image, or an index of several.
type manifest struct {
	SchemaVersion int
	MediaType     string
	Config        descriptor
	Layers        []descriptor
	Manifests     []descriptor
	Annotations   map[string]string
}

type imageConfig struct {
	OS, Architecture string
	Created          string
	Config           struct {
		User            string
		Entrypoint, Cmd []string
		Env             []string
		Labels          map[string]string
	}
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	}
}

// layout is a directory in the OCI image layout.
type layout string

// tagged returns the descriptor of the only image in the layout.
func (l layout) tagged(t *testing.T) descriptor {
	t.Helper()
	version, err := os.ReadFile(filepath.Join(string(l), "oci-layout"))
	require.NoError(t, err)
	require.JSONEq(t, `{"imageLayoutVersion": "1.0.0"}`, string(version))
	content, err := os.ReadFile(filepath.Join(string(l), "index.json"))
	require.NoError(t, err)
	var index manifest
	require.NoError(t, json.Unmarshal(content, &index))
	require.Equal(t, 2, index.SchemaVersion)
	require.Len(t, index.Manifests, 1)
	require.Equal(t, typeIndex, index.Manifests[0].MediaType)
	return index.Manifests[0]
}

// blob returns the content that a descriptor names, which has to be what it says.
func (l layout) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	algorithm, sum, found := strings.Cut(d.Digest, ":")
	require.True(t, found, d.Digest)
	require.Equal(t, "sha256", algorithm)
	content, err := os.ReadFile(filepath.Join(string(l), "blobs", algorithm, sum))
	require.NoError(t, err)
	require.Equal(t, d.Digest, digestOf(content))
	require.Len(t, content, int(d.Size))
	return content
}

func digestOf(content []byte) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(content))
}

// decode reads a blob of JSON into out.
func (l layout) decode(t *testing.T, d descriptor, mediaType string, out any) {
	t.Helper()
	require.Equal(t, mediaType, d.MediaType)
	require.NoError(t, json.Unmarshal(l.blob(t, d), out))
}

// find returns the one descriptor for which is is true.
func find(t *testing.T, all []descriptor, is func(descriptor) bool) descriptor {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(all), func(d descriptor) bool { return !is(d) })
	require.Len(t, found, 1)
	return found[0]
}

// unpack writes the content of a layer to a directory. Everything has to belong to
// root and be read-only. A process of another user has the rights of others: the files
// get these for their owner, too, because that may be the user of the process.
func (l layout) unpack(t *testing.T, d descriptor, diffID, dir string) {
	t.Helper()
	require.Equal(t, typeLayer, d.MediaType)
	compressed, err := gzip.NewReader(bytes.NewReader(l.blob(t, d)))
	require.NoError(t, err)
	content, err := io.ReadAll(compressed)
	require.NoError(t, err)
	require.Equal(t, diffID, digestOf(content))
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.Equal(t, byte(tar.TypeReg), header.Typeflag, header.Name)
		require.True(t, filepath.IsLocal(header.Name), header.Name)
		require.Zero(t, header.Uid, header.Name)
		require.Zero(t, header.Gid, header.Name)
		require.Zero(t, header.Mode&0o7222, "%s has mode %o", header.Name, header.Mode)
		file, err := io.ReadAll(r)
		require.NoError(t, err)
		path := filepath.Join(dir, header.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, file, 0o600))
		others := os.FileMode(header.Mode & 0o007)
		require.NoError(t, os.Chmod(path, others<<6|others))
	}
}
