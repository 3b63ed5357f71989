// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Image packs the binaries of the controller and the dashboard into a container image for
// several architectures, without a container engine and without a base image:
//
//	image -name REGISTRY/NAME:TAG -version VERSION -dir DIR [-revision COMMIT] [-created UNIX] ARCHITECTURE...
//
// It reads DIR/linux-ARCHITECTURE/BINARY and DIR/linux-ARCHITECTURE/BINARY.cdx.json for
// nhc-controller and nhc-dashboard, and writes:
//
//	DIR/oci                        the image as an OCI layout, for all architectures
//	DIR/oci.tar                    the same as an archive
//	DIR/docker-ARCHITECTURE.tar    what docker load reads, for one architecture
//	DIR/reference                  REGISTRY/NAME:TAG@DIGEST
//
// Of the same input it makes the same output, byte by byte.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	r := release{}
	var created int64
	var image, dir string
	flag.StringVar(&image, "name", "", "the name of the image, with its tag")
	flag.StringVar(&dir, "dir", "", "the directory to read from and to write to")
	flag.StringVar(&r.version, "version", "", "the version of the binaries")
	flag.StringVar(&r.revision, "revision", "", "the commit that they were built from")
	flag.Int64Var(&created, "created", 0, "the time that the image gives as its own, in seconds since 1970")
	flag.Parse()
	r.created = time.Unix(created, 0).UTC()
	tag, err := name.NewTag(image, name.StrictValidation)
	if err == nil && (r.version == "" || dir == "" || flag.NArg() == 0) {
		err = fmt.Errorf("-version, -dir and an architecture are needed")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	r.tag = tag
	if err := run(r, dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(r release, dir string, architectures []string) error {
	images := map[string]v1.Image{}
	var platforms []platform
	for _, architecture := range architectures {
		if images[architecture] != nil {
			return fmt.Errorf("%s is named twice", architecture)
		}
		p, err := readPlatform(r, filepath.Join(dir, "linux-"+architecture), architecture)
		if err != nil {
			return fmt.Errorf("packing linux/%s: %w", architecture, err)
		}
		size, err := compressedSize(p.image)
		if err != nil {
			return err
		}
		if size > maxCompressed {
			return fmt.Errorf("linux/%s has %d bytes compressed, more than %d", architecture, size, maxCompressed)
		}
		fmt.Printf("linux/%s: %.1f MB compressed\n", architecture, float64(size)/1e6)
		images[architecture] = p.image
		platforms = append(platforms, p)
	}
	index, err := newIndex(r, platforms)
	if err != nil {
		return err
	}
	if err := writeLayout(r, index, filepath.Join(dir, "oci")); err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	if err := writeArchive(filepath.Join(dir, "oci"), filepath.Join(dir, "oci.tar")); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	for architecture, image := range images {
		if err := writeDocker(r, image, filepath.Join(dir, "docker-"+architecture+".tar")); err != nil {
			return err
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	reference := r.tag.String() + "@" + digest.String()
	fmt.Println(reference)
	return os.WriteFile(filepath.Join(dir, "reference"), []byte(reference+"\n"), 0o644)
}
