// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	inToto = types.MediaType("application/vnd.in-toto+json")
	// cycloneDX is the type of the predicate that lists what is in an image.
	cycloneDX = "https://cyclonedx.org/bom"
)

// newIndex returns an image for all platforms. The lists of what is in each of them are
// in the index as an attestation, in the form of BuildKit: tools know it, it is copied
// with the image, and the digest of the image covers it.
func newIndex(r release, platforms []platform) (v1.ImageIndex, error) {
	var images, attestations []mutate.IndexAddendum
	for _, p := range platforms {
		images = append(images, mutate.IndexAddendum{
			Add:        noArtifact{p.image},
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.architecture}},
		})
		digest, err := p.image.Digest()
		if err != nil {
			return nil, err
		}
		attestation, err := newAttestation(r, p, digest)
		if err != nil {
			return nil, fmt.Errorf("attesting linux/%s: %w", p.architecture, err)
		}
		attestations = append(attestations, mutate.IndexAddendum{
			Add: noArtifact{attestation},
			Descriptor: v1.Descriptor{
				Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"},
				Annotations: map[string]string{
					"vnd.docker.reference.type":   "attestation-manifest",
					"vnd.docker.reference.digest": digest.String(),
				},
			},
		})
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	index = mutate.AppendManifests(index, append(images, attestations...)...)
	return mutate.Annotations(index, r.labels()).(v1.ImageIndex), nil
}

// noArtifact is an image. The library gives the descriptors of images the type of an
// artifact, if they do not say that they have none.
type noArtifact struct{ v1.Image }

// ArtifactType is called by the library.
func (noArtifact) ArtifactType() (string, error) { return "", nil }

// statement is an in-toto statement, https://in-toto.io/Statement/v1.
type statement struct {
	Type          string          `json:"_type"`
	Subject       []subject       `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// newAttestation returns what states that an image contains what its SBOMs list, with a
// statement for each of them.
func newAttestation(r release, p platform, image v1.Hash) (v1.Image, error) {
	var statements []mutate.Addendum
	for _, sbom := range p.sboms {
		content, err := json.Marshal(statement{
			Type:          "https://in-toto.io/Statement/v1",
			Subject:       []subject{{Name: r.tag.String(), Digest: map[string]string{image.Algorithm: image.Hex}}},
			PredicateType: cycloneDX,
			Predicate:     sbom,
		})
		if err != nil {
			return nil, err
		}
		statements = append(statements, mutate.Addendum{
			Layer:       static.NewLayer(content, inToto),
			MediaType:   inToto,
			Annotations: map[string]string{"in-toto.io/predicate-type": cycloneDX},
			History:     v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "hack/image"},
		})
	}
	base := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	base = mutate.ConfigMediaType(base, types.OCIConfigJSON)
	base, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: "unknown",
		OS:           "unknown",
		Created:      v1.Time{Time: r.created},
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(base, statements...)
}
