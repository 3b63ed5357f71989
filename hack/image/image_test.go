// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

func newRelease(t *testing.T) release {
	t.Helper()
	tag, err := name.NewTag("registry.example/nhc-controller:v1.2.3", name.StrictValidation)
	require.NoError(t, err)
	return release{tag: tag, version: "v1.2.3", revision: "0123456789abcdef", created: time.Unix(1_800_000_000, 0).UTC()}
}

// newInput returns a directory with binaries for architectures.
func newInput(t *testing.T, binary []byte, architectures ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, architecture := range architectures {
		platform := filepath.Join(dir, "linux-"+architecture)
		require.NoError(t, os.Mkdir(platform, 0o755))
		for _, name := range binaries {
			require.NoError(t, os.WriteFile(filepath.Join(platform, name), append([]byte(architecture+name), binary...), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(platform, name+".cdx.json"), []byte(`{"bomFormat": "CycloneDX"}`), 0o644))
		}
	}
	return dir
}

// TestSeveralArchitectures: each architecture has its image in the layout and in a
// tarball of its own, and both are the same.
func TestSeveralArchitectures(t *testing.T) {
	t.Parallel()
	dir := newInput(t, []byte("binary"), "amd64", "arm64")
	r := newRelease(t)
	require.NoError(t, run(r, dir, []string{"amd64", "arm64"}))
	path, err := layout.FromPath(filepath.Join(dir, "oci"))
	require.NoError(t, err)
	top, err := path.ImageIndex()
	require.NoError(t, err)
	manifest, err := top.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	manifest, err = index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 4, "two images and their attestations")
	for _, descriptor := range manifest.Manifests {
		require.Empty(t, descriptor.ArtifactType)
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		require.Equal(t, "linux/"+architecture, manifest.Manifests[i].Platform.String())
		image, err := tarball.ImageFromPath(filepath.Join(dir, "docker-"+architecture+".tar"), &r.tag)
		require.NoError(t, err)
		require.NoError(t, validate.Image(image))
		config, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, architecture, config.Architecture)
		inLayout, err := index.Image(manifest.Manifests[i].Digest)
		require.NoError(t, err)
		require.NoError(t, validate.Image(inLayout))
		want, err := inLayout.ConfigName()
		require.NoError(t, err)
		got, err := image.ConfigName()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, manifest.Manifests[i].Digest.String(), manifest.Manifests[2+i].Annotations["vnd.docker.reference.digest"])
	}
}

// TestRepeated: existing files in the directory have no influence.
func TestRepeated(t *testing.T) {
	t.Parallel()
	dir := newInput(t, []byte("binary"), "amd64", "arm64")
	require.NoError(t, run(newRelease(t), dir, []string{"amd64", "arm64"}))
	first, err := os.ReadFile(filepath.Join(dir, "oci.tar"))
	require.NoError(t, err)
	require.NoError(t, run(newRelease(t), dir, []string{"arm64"}))
	require.NoError(t, run(newRelease(t), dir, []string{"amd64", "arm64"}))
	second, err := os.ReadFile(filepath.Join(dir, "oci.tar"))
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	dir := newInput(t, []byte("binary"), "amd64")
	require.ErrorContains(t, run(newRelease(t), dir, []string{"amd64", "arm64"}), "packing linux/arm64")
	require.ErrorContains(t, run(newRelease(t), dir, []string{"amd64", "amd64"}), "named twice")
	large := make([]byte, maxCompressed)
	_, err := rand.Read(large) // Nothing that can be compressed.
	require.NoError(t, err)
	require.ErrorContains(t, run(newRelease(t), newInput(t, large, "amd64"), []string{"amd64"}), "more than 40000000")
}
