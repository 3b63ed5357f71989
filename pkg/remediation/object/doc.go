// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package object has the objects of remediators as the controller reads and writes them:
// templates, remediation objects (CRs), their owners and names. It is pure.
package object
