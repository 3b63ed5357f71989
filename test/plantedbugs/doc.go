// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plantedbugs tests the tests: it builds the controller with one small bug at a time,
// by a build overlay, and requires that the simulation notices each, or the failure tests
// where the simulation cannot. Some bugs name the tests that have to. It prints by what
// and how fast each bug was caught, and fails if one survives.
package main
