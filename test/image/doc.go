// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image tests the container image without a container engine: it builds the
// image, unpacks it, and runs its programs as a pod would. Images are for Linux, and so
// are the tests.
package image
