// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package meter measures a running controller from outside: what /proc says that the
// process uses, and what it says of itself at /metrics.
package meter
