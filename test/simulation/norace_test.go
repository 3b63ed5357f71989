// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package simulation

// usualSeeds are what fits into every run of the tests.
const usualSeeds = 60
