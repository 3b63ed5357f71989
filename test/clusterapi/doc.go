// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterapi tests the controller together with the real controllers of Cluster
// API for Machines and MachineSets. Only the provider of the instances is simulated.
package clusterapi
