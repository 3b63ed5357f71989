// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package simulation

// usualSeeds are few: the race detector makes each of them ten times slower.
const usualSeeds = 20
