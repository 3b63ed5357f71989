// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import _ "embed" // For the manifests.

// DatabaseManifest is a StatefulSet db with one pod and a volume. There is one volume in a cluster.
//
//go:embed manifests/database.yaml
var DatabaseManifest string

// storage is the class of the volumes, and a volume.
//
//go:embed manifests/storage.yaml
var storage string
