// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machinehealth decides which Machines are unhealthy, whether they may be remediated, and
// how: by deletion, so that their owner replaces them, or by another controller. It is pure: it
// reads only its arguments, keeps no state, and never asks for the time. It cites the rules of
// docs/reference/machinehealthcheck.md.
package machinehealth
