// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package simulation

// usualSeeds are enough to reach everything that coverage_test.go requires.
const usualSeeds = enoughSeeds
